"""Programs of calls: an interpreter in machine code for robots with many links."""
