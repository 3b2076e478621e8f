"""The server that `stayer up` runs beside its worker: a process of its own, so that nothing that
somebody asks of it keeps the heart of the worker waiting.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from stayer.cli.command import Given
from stayer.cli.output import note


@contextmanager
def server_beside(given: Given, port: int | None) -> Iterator[None]:
    """Serve the same store as long as this goes on; it prints where, and the link to log in."""
    if find_spec("uvicorn") is None or find_spec("starlette") is None:
        note("no web page: pip install 'stayer[web]' adds it (--no-serve: never mind)")
        yield
        return
    command = [sys.executable, "-m", "stayer", "serve", "--parent", str(os.getpid())]
    if given.config_file is not None:
        command += ["--config", given.config_file]
    if port is not None:
        command += ["--port", str(port)]
    # Not as an argument, which every user of the machine can read. Apart from the terminal, so that
    # it still shows what goes on while Ctrl-C ends the tasks.
    environment = {**os.environ, "STAYER_STORE": given.config().store}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()
