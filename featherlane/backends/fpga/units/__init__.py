"""Units of a datapath: multipliers, post-adders, sines and reciprocals in stages."""
