"""The benchmark suite: `python benchmarks/suite/run.py --help`."""
