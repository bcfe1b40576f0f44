"""Programs in fixed point: formats of signals, and what circuits compute with them, to the bit."""
