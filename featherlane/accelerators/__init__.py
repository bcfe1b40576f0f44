"""Functions of robots as circuits for FPGAs: choices, designs, boards and reports."""
