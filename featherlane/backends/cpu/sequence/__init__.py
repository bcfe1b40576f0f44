"""The CPU: kernels that run one after another, and again for each step of time, in one call of
machine code.
"""
