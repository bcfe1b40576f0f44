"""Functions of robots with many links, which are programs of calls."""
