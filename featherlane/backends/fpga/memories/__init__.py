"""Datapaths of units with operand memories: multiplier-accumulators that micro-code controls."""
