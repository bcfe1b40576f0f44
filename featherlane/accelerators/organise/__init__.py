"""Organisation by structure: functions of a robot cut into arrays of limbs and columns."""
