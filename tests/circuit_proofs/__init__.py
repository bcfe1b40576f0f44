"""Proofs by Yosys and z3 about the emitted circuits, and how their tools are started."""
