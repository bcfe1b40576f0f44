"""Programs as C99 for any compiler and processor: one header, one source, no dependencies but
`math.h`, no memory of its own.

`layout` says where each value lies, `code` writes the functions of a program, `library` the files.
`arithmetic` is what C has no exact operator for.
"""
