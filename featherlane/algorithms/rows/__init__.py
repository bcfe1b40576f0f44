"""Matrices over the joints, given by one row of numbers for each degree of freedom."""
