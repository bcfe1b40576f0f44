"""Programs in fixed point: formats of signals, and what a circuit computes with them, to the bit."""
