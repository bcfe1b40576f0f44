"""LLVM: graphs as IR, and IR as machine code for this processor or another."""
