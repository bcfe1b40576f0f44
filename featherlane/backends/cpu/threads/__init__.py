"""A pool of threads that claim parts of a batch."""
