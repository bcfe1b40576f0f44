"""Where the halves meet: a function of a robot is traced, compiled and called with arrays."""
