"""NVIDIA GPUs: programs as PTX text, which the driver compiles."""
