"""The cost of graphs. Analyses read graphs and change nothing."""
