"""GPUs of other vendors: kernels translated from PTX to LLVM IR, for AMD and SPIR-V."""
