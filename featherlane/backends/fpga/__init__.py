"""Programs as pipelines in SystemVerilog, for FPGAs."""
