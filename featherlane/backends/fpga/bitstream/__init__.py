"""From a design to a bitstream for a board: wrapper, constraints, and the ECP5's open tools."""
