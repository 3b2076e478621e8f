"""`python -m stayer.task …`: see `stayer.task.main`."""

import gc
import sys
from importlib import import_module

gc.disable()  # all of this stays: looking for garbage in it takes a sixth of the start

from stayer.task.main import main  # noqa: E402


def begin(arguments: list[str]) -> int:
    """Have all of our own imported, out of the sight of the garbage collector, then run the task;
    return the exit code.
    """
    if arguments[:1] in (["app"], ["function"]):
        import_module("stayer.app")  # as their own module will
    gc.freeze()
    gc.enable()
    return main(arguments)


if __name__ == "__main__":
    sys.exit(begin(sys.argv[1:]))
