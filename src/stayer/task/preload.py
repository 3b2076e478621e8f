"""`python -m stayer.task preload app|class TARGET`: a zygote. It imports the code once, then forks
a process for each task that a keeper asks for, through descriptor 3; `stayer.keeper.preloaded`
says what belongs to it.

It forks only what a fresh process would run as well: not while it has threads, and not when a file
that it has imported has changed. Then it ends, is started anew, and meanwhile tasks start without.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import json
import os
import signal
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from stayer.keeper.accounts import reaped
from stayer.keeper.kernel import adopt_orphans, die_with_parent, set_dumpable, set_name
from stayer.keeper.spawn import LONGEST_COMPLAINT, prefer_to_be_killed
from stayer.task import record

_PLACE = 3
"""The descriptor that the nursery gives it."""
_WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_ASKED_BYTES = 16
_DESCRIPTORS = 6

Files = dict[str, tuple[int, int, int] | None]


class ForkRequest(NamedTuple):
    """The descriptors that come with a request."""

    talk: int
    gate: int
    complain: int
    input: int
    log: int
    about: int

    def close(self) -> None:
        for each in self:
            os.close(each)


def serve(load: Callable[[], object], begin: Callable[[], int]) -> int:
    """Import, then fork until the nursery ends; returns in the main process of a task only, with
    what `begin` has returned there.
    """
    set_name("stayer-zygote")
    set_dumpable(False)
    os.set_inheritable(_PLACE, False)
    nursery = socket.socket(fileno=_PLACE)
    sys.stdout, sys.stderr = _stream(1), _stream(2)
    load()
    record.get_ready()
    files = _imported_files()
    kept_files = _find_open_files()
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to reap what we fork
    gc.collect()
    gc.freeze()  # pages that the collector does not touch stay shared
    nursery.send(b"ready")
    said = 0
    while True:
        word, descriptors, _, _ = socket.recv_fds(nursery, _ASKED_BYTES, _DESCRIPTORS)
        if not word:
            os._exit(0)
        asked = ForkRequest(*descriptors)
        if _imported_files(files) != files:
            _say("its code has changed: importing it anew")
            os._exit(0)
        threads = len(os.listdir("/proc/self/task"))  # Python does not know of all
        if threads > 1:
            if threads != said:
                _say(f"it has {threads} threads, and a fork would lose them: tasks start afresh")
            said = threads
        elif _fork(asked, nursery):
            signal.signal(signal.SIGCHLD, on_child)
            return _leave(_begin(asked, begin), kept_files)
        asked.close()


class _Anything(io.FileIO):
    """A descriptor that is now a file and later a pipe: nothing can be told of its position."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = _Anything(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True
    )


def _say(text: str) -> None:
    print(f"preloaded {sys.argv[0]}: {text}", file=sys.stderr, flush=True)


def _imported_files(known: Files | None = None) -> Files:
    """Return what tells versions of the imported files apart; without the standard library, which
    changes with the interpreter only.
    """
    if known is None:
        library = os.path.dirname(os.__file__) + os.sep
        others = os.path.join(library, "site-packages"), os.path.join(library, "dist-packages")
        found = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        known = {
            path: None
            for path in found
            if path and (not path.startswith(library) or path.startswith(others))
        }
    return {path: _version(path) for path in known}


def _version(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _fork(asked: ForkRequest, nursery: socket.socket) -> bool:
    """Fork the first process of a task; True in its main one."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # whatever the app has made of it
            stream.flush()
    try:
        if os.fork() != 0:
            return False
    except OSError as error:
        _say(f"no process can be forked: {error.strerror}")
        return False
    try:
        nursery.close()
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        adopt_orphans()
        set_name("stayer-first")
        talk = socket.socket(fileno=asked.talk)
        talk.send(b"first")
        first, main = os.getpid(), os.fork()
        if main != 0:
            for each in asked[1:]:
                os.close(each)
            _reap(main, talk)
        os.setsid()
        die_with_parent(first)
        talk.send(b"main")
        talk.detach()
    except BaseException:
        os._exit(127)
    return True


def _reap(main: int, talk: socket.socket) -> NoReturn:
    """Live as the first process does: until nothing is left of the others."""
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if pid == main:
            talk.send(b"ended %d" % status)
    talk.send(" ".join(map(str, ("done", *reaped()))).encode())
    os._exit(0)


def _begin(asked: ForkRequest, begin: Callable[[], int]) -> int:
    """Be the main process, when the keeper lets us."""
    os.close(asked.talk)
    if not os.read(asked.gate, 1):
        os._exit(127)  # the keeper is dead
    try:
        set_dumpable(True)
        set_name("python")
        prefer_to_be_killed()
        with open(asked.about, "rb", closefd=False) as file:
            file.seek(0)
            about = json.load(file)
        if about["nice"]:
            os.nice(about["nice"])
        for descriptor, place in ((asked.input, 0), (asked.log, 1), (asked.log, 2)):
            os.dup2(descriptor, place)
        _enter(about["cwd"])
        os.environ.clear()
        os.environ.update(about["env"])
        _seed()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    except BaseException as error:
        os.write(asked.complain, (str(error) or repr(error)).encode()[:LONGEST_COMPLAINT])
        os._exit(127)
    for each in asked[1:]:
        os.close(each)
    return begin()


def _find_open_files() -> list[weakref.ref[io.IOBase]]:
    """Find what is written to by way of a buffer."""
    found = gc.get_objects()
    return [weakref.ref(each) for each in found if isinstance(each, _WRITERS)]


def _flush(files: list[weakref.ref[io.IOBase]]) -> None:
    for found in (*files, *_find_open_files()):
        if (file := found()) is not None and not file.closed:
            file.flush()


def _leave(code: int, files: list[weakref.ref[io.IOBase]]) -> int:
    """End as an interpreter does: threads, what `atexit` has, files, then the C library. But
    without taking all modules apart, whose pages would have to be copied for it first; that is most
    of what a short task would cost. Returns if something is in the way of that.
    """
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        _flush(files)  # before the collector, which may close what is below a buffer first
        gc.collect()  # not of what was there before the fork, which is frozen
        _flush(files)
    except BaseException:  # the interpreter says it better
        return code
    # Not os._exit: libraries have buffers, too. No other thread can run Python meanwhile.
    ctypes.PyDLL(None).exit(code & 0xFF)
    raise AssertionError("exit came back")


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise OSError(f"can't enter the directory {cwd}: {error.strerror}") from error


def _seed() -> None:
    """Draw other random numbers than our siblings; Python's own module sees to that itself."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
