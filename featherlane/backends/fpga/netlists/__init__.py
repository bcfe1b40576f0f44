"""Netlists of a device's cells, after synthesis or after routing, as SystemVerilog that any
simulator takes.
"""
