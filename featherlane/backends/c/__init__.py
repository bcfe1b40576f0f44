"""Programs as C99 for any compiler and processor: one header, one source, no dependencies but
`math.h`, no allocated memory.

`backends.layout` assigns each value to memory, `code` writes the functions of a program, `library`
the files. `arithmetic` defines the operations that C has no exact operator for.
"""
