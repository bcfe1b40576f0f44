"""NVIDIA GPUs: programs as PTX text, which the driver compiles, and an emulator of that text."""
