"""LLVM: graphs lowered to LLVM IR, and LLVM IR compiled for this processor or another one."""
