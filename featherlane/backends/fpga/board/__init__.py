"""A board's view of a design: streams and registers of AXI around it, and the host's side of them.
"""
