"""How Python calls machine code: generalised ufuncs, and a vectorcall entry point of our own."""
