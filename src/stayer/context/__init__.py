"""What a task sees of Stayer while it runs: its record, and the files it reports through.

No store, no connection: all of it is the run directory that the worker reads. See
`docs/how-to/progress-and-checkpoints.md`.
"""
