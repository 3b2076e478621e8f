"""What is inside the process of a task: `python -m stayer.task …`, started by a keeper, runs a
function or a class; a task of any kind sees its record here, and reports through files.

It imports no store and no client: all that it knows is in the run directory, which the worker
reads, and an app is whatever has `names` and `call`. See
`docs/how-to/progress-and-checkpoints.md`.
"""
