"""The meeting place of the two halves: functions of robots are traced, compiled and called."""
