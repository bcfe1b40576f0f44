"""MuJoCo's soft constraints: contacts, limits and dry friction as one convex problem."""
