"""Edits that make a new robot of one: names, physics, locked joints, another root."""
