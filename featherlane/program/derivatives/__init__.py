"""Exact derivatives of graphs and of programs, as graphs and programs."""
