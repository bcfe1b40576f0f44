"""Matrices over the joints, from one row of numbers for each degree of freedom."""
