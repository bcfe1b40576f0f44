"""Matrices over the joints of long robots, made by tiled products and by sweeps over the tree."""
