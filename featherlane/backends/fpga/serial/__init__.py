"""A serial line's view of a design: frames of bytes between a UART and its streams, a self-test in
the circuit, and the host's side of them.
"""
