"""The pure heart of Stayer: no I/O, no clock, no threads."""
