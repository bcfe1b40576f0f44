"""The CPU: sequences of kernels, repeated for each step of time, in one call of machine code."""
