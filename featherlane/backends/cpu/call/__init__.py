"""How Python calls machine code: generalised ufuncs, and a vectorcall entry of our own."""
