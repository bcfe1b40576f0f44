"""Matrices over the joints of long robots, computed by tiled products and sweeps over the tree."""
