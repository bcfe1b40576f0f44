"""Changes of a robot that give another robot: names, physics, locked joints, another root."""
