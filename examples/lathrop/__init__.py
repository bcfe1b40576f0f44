"""Tables of Lathrop (1985) from graphs: general arms, longest chains of operations, schedules."""
