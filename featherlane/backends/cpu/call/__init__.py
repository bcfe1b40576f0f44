"""Calls of machine code from Python: generalised ufuncs, and vectorcall entry points of our own."""
