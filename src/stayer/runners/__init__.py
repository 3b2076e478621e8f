"""What runs inside the process of a Python task: `python -m stayer.runners …`, started by a keeper.

It imports no store and no client: what it knows is in the run directory, and an app is whatever has
`names` and `call`.
"""
