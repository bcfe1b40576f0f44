"""From a graph to something that runs. `reference` interprets it and so defines what every other
backend must give.
"""
