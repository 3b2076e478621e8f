"""Rules and records, as pure functions and data: no I/O, no clock, no threads."""
