"""Run by path by the Python of a prepared environment: our runner, from where it can be found.

`python -P …/in_environment.py FOLDER ARGUMENT …`: the arguments are those of `stayer.task`. An
environment that has Stayer itself installed uses that; any other takes it from the folder, which
has just the runner and what it needs.
"""

import importlib.util
import sys

if importlib.util.find_spec("stayer") is None:
    if not sys.argv[1]:
        sys.exit(
            "stayer: this Python is of another version than the worker's: add stayer to the "
            "requirements of the task"
        )
    sys.path.append(sys.argv[1])

from stayer.task.__main__ import begin

sys.exit(begin(sys.argv[2:]))
