"""The life of a pool's process, from its first message to its exit."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import io
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, cast

from stayer.core.errors import LeaseLost
from stayer.core.safe_text import log_printably, set_log_level
from stayer.keeper import kernel
from stayer.stores import open_store
from stayer.task.load_code import load_app
from stayer.worker.threads.call import ThreadApp
from stayer.worker.threads.in_flight import InFlightFile
from stayer.worker.threads.pool import Pool
from stayer.worker.threads.protocol import Link, Ping, Pong, Setup

CAN_NOT_BEGIN = 70
LOST_LEASE = 71
LOCK = "pool.lock"
BEGUN = "pool.begun"
_GC_THRESHOLD = 20_000
_SWITCH_INTERVAL_S = 0.001
"""How long a thread may go on while another wants to (5 ms, if nobody says otherwise). The loop has
to come in a dozen times in each turn, and would wait longer than all else takes."""


def begin(descriptor: int) -> NoReturn:
    """Run until the worker wants it to end, or is gone."""
    kernel.set_name("stayer-pool")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to hear
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    log_printably()
    link = Link(descriptor)
    setup = link.receive()
    if not isinstance(setup, Setup):
        _leave(CAN_NOT_BEGIN)
    set_log_level(setup.log_level)
    _take_lock(Path(setup.state) / LOCK)
    try:
        app = cast(ThreadApp, load_app(setup.app))
    except ImportError:
        logging.exception("--app %s can't be loaded", setup.app)
        _leave(CAN_NOT_BEGIN)
    sys.argv = [setup.app]
    _collect_less_often()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    begun_file = InFlightFile(Path(setup.state) / BEGUN, setup.threads)
    store = open_store(setup.store, token=setup.token)
    store.work_as(setup.worker)
    pool = Pool(setup, store, app, begun_file, link)
    if setup.pings:
        with suppress(OSError):  # the worker is gone
            link.send(Pong(0))  # ready; a task may keep it from answering from the first moment on
    threading.Thread(target=_listen, args=(link, pool), name="link", daemon=True).start()
    try:
        pool.run()
    except LeaseLost as error:
        logging.error("%s", error)
        _leave(LOST_LEASE)
    _leave(0)


def _collect_less_often() -> None:
    """Collect garbage less often: looking for cycles among them after every few hundred, and
    through all that the app has imported, would cost more than running it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


def _listen(link: Link, pool: Pool) -> None:
    while (message := link.receive()) is not None:
        if isinstance(message, Ping):
            with suppress(OSError):
                link.send(Pong(message.number))
        else:
            pool.receive(message)
    _leave(CAN_NOT_BEGIN)  # the worker is gone


def _take_lock(path: Path) -> None:
    """Held as long as this process lives, and by no child of it: the proof that it is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        logging.error("another pool has %s", path)
        _leave(CAN_NOT_BEGIN)


def _leave(code: int) -> NoReturn:
    """Leave at once: tasks that still run must not be waited for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a task may have closed it
            stream.flush()
    os._exit(code)
