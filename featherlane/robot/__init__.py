"""The robot half: spatial algebra, joints, the model, its tree, and the files it is read from."""
