"""Changes of programs that keep what they compute, one in each file."""
