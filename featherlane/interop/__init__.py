"""Functions of models in other packages: `torch`, `jax` and `casadi`, each an extra."""
