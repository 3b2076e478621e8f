"""Trees of processes that are hard to end: `python nasty.py KIND FOLDER`.

Every process holds the pipe `life` open for writing and says its birth there, so that the end of
the pipe proves that none is left; and stamps the moment of its last instruction into a file.
"""

from __future__ import annotations

import os
import signal
import sys
import time

FOLDER = sys.argv[2]


def be_born() -> int:
    """Stamp, then say so; where to stamp again."""
    path = os.path.join(FOLDER, "stamps", f"{os.getpid()}-{time.monotonic_ns()}")
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    stamp(file)
    os.write(LIFE, b".")
    return file


def stamp(file: int) -> None:
    os.pwrite(file, f"{time.clock_gettime(time.CLOCK_BOOTTIME):020.6f}\n".encode(), 0)


def live() -> None:
    file = be_born()
    while not (LEAVES and os.path.exists(os.path.join(FOLDER, "leave"))):
        stamp(file)
        time.sleep(0.005)
    sys.exit(0)


def child() -> bool:
    """Fork; only the main process leaves when told to."""
    global LEAVES  # noqa: PLW0603
    if os.fork() != 0:
        return False
    LEAVES = False
    return True


def plain() -> None:
    if child():
        live()


def setsid() -> None:
    if child():
        os.setsid()
        live()


def double_fork() -> None:
    if child():
        os.setsid()
        if os.fork() == 0:
            live()
        os._exit(0)


def cleared_environment() -> None:
    if child():
        os.setsid()
        os.set_inheritable(LIFE, True)
        os.execve(
            sys.executable, [sys.executable, "-I", "-S", __file__, f"born:{LIFE}", FOLDER], {}
        )


def mutual_respawners() -> None:
    """Each starts the other anew when it finds it gone."""
    if child():
        os.setsid()
        respawn(os.getpid())


def respawn(other: int) -> None:
    file = be_born()
    mate = other
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        stamp(file)
        try:
            os.kill(mate, 0)
            if mate == os.getpid():
                raise ProcessLookupError
        except ProcessLookupError:
            me = os.getpid()
            mate = os.fork()
            if mate == 0:
                os.setsid()
                respawn(me)
        time.sleep(0.002)


def fork_loop() -> None:
    """A process whose number is another one whenever somebody looks."""
    if child():
        os.setsid()
        be_born()
        while True:
            if os.fork() != 0:
                os._exit(0)


def ignores_term() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if child():
        live()


def many() -> None:
    for _ in range(500):
        if child():
            be_born()
            signal.pause()


KIND = sys.argv[1]
LEAVES = True
if KIND.startswith("born:"):
    LIFE, LEAVES = int(KIND[5:]), False
else:
    LIFE = os.open(os.path.join(FOLDER, "life"), os.O_WRONLY)
    globals()[KIND]()
live()
