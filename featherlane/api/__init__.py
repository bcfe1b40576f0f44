"""What users hold: the model with its methods, and what they do with robots and functions."""
