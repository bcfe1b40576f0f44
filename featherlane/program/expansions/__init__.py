"""Elementary functions as arithmetic."""
