"""A design as a page: one HTML file that needs nothing else, to be read in a browser."""
