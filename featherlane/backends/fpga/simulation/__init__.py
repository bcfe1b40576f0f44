"""Simulation of designs in Verilator and Icarus, cycle by cycle."""
