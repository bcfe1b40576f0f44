"""Drawings of a design: a page of HTML that needs no other file, and traces for Perfetto."""
