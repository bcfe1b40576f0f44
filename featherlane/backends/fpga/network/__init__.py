"""Networks of pipelines: stations that work on tasks of several functions, and links of FIFOs
between them.
"""
