"""Matrices over the joints as one row of numbers for each degree of freedom."""
