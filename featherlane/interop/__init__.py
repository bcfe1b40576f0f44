"""Models in other packages, each an extra: `torch`, `jax` and `casadi`; `view` draws robots."""
