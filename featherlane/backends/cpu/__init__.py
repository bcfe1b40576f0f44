"""The CPU: LLVM IR for vectors of states, compiled in memory and called from NumPy."""
