"""What a graph costs. Analyses read graphs and change nothing."""
