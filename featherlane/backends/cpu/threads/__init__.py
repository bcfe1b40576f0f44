"""A thread pool in machine code, which shares the states of a call."""
