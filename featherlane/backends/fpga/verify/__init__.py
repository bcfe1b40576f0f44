"""Proofs by Yosys and z3, synthesis, and placement of designs."""
