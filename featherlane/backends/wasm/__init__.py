"""Programs as WebAssembly for browsers and Node, and as JavaScript where that is missing.

A module is written straight from the graph: `encode` knows the binary format, `code` makes the
functions of a program, `javascript` the same functions as text, `files` the folder that users get.
"""
