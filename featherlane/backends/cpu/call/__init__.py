"""Calls of machine code from Python: generalised ufuncs, and entry points by the vectorcall
convention.
"""
