"""A board's view of a design: AXI streams and registers around it, and the host's side of them."""
