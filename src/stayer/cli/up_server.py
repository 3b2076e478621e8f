"""The server that `stayer up` runs beside its worker: a process of its own, so that nothing that
somebody asks of it keeps the worker's heartbeat waiting.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from stayer.cli.command import Given
from stayer.cli.output import note
from stayer.core.errors import Refused
from stayer.core.extras import how_to_install


@contextmanager
def serve_meanwhile(given: Given, port: int | None) -> Iterator[None]:
    """Serve the same store as long as this goes on; it prints where, and the link to log in."""
    if not all(map(find_spec, ("httptools", "starlette", "uvicorn"))):
        note(f"no web page: {how_to_install('web')} adds it (or run with --no-serve)")
        yield
        return
    _refuse_taken_port(given.config().serve, port)
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


def _refuse_taken_port(settings: Mapping[str, object], port: int | None) -> None:
    """Refuse now: the server would find out only after the worker has begun."""
    host = str(settings.get("host", "127.0.0.1"))
    port = int(str(settings.get("port", 8787))) if port is None else port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError as error:
            raise Refused(
                f"can't listen on {host}:{port}: {error.strerror}. Perhaps `stayer up` runs "
                "already; else choose another --port, or --no-serve"
            ) from None
