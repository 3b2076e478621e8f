"""`python -m stayer …` in a process of its own, quick to start: it is forked from a server that has
imported Stayer already, one for each process that runs tests. A new interpreter takes 0.17 s of a
core until it has imported what a worker on SQLite needs, and 0.34 s with Redis. `stayer --version`
takes 0.08 s in a new interpreter and 0.024 s in a fork (means of 10, on a busy machine).

All else is as it would be: the process is a child of the test, has the arguments, the environment,
the folder and the streams that the test gave, runs `stayer.__main__` and ends as any interpreter
does. Tests that are about the start of an interpreter use `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, AnyStr, TextIO, cast

from stayer.cli import VERBS, main

_CLONE_PARENT = 0x8000
_CLONE = {"x86_64": 56, "aarch64": 220}.get(platform.machine())
_READ_AT_START = ("PYTHON", "COVERAGE", "LC_", "LANG", "LD_", "MALLOC_")
"""How variables begin that an interpreter looks at before it runs anything."""
_ENVIRONMENT = dict(os.environ)
_LARGEST = 1 << 17

_PRELOADED = (
    "stayer.cli.hide_credentials",
    "stayer.cli.main",
    "stayer.cli.worker",
    "stayer.core.schedules.parse",
    "stayer.core.submit.json",
    "stayer.service.notify.deliverer",
    "stayer.stores.sql.sqlite",
    "stayer.stores.sql.sqlite.schema",
    "stayer.worker.load_user_code",
    "stayer.worker.loop",
)
_PRELOADED_FOR = {
    "redis:": ("stayer.stores.redis",),
    "redis+cluster:": ("stayer.stores.redis", "stayer.stores.redis_cluster"),
    "serve": ("stayer.http.server", "uvloop"),
    "--threads": ("stayer.worker.threads.worker",),
}
"""The beginning of a word of the command → what it will import besides. A verb has its module."""


class QuickPopen(subprocess.Popen[AnyStr]):
    """`subprocess.Popen`, but a command that begins with `[sys.executable, "-m", "stayer"]` is
    forked, unless something was asked for that only a new interpreter has.
    """

    def _execute_child(self, args: Any, *more: Any) -> None:
        (
            executable, preexec_fn, _close_fds, pass_fds, cwd, env, _startupinfo, _flags, shell,
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals,
            gid, gids, uid, umask, start_new_session, process_group,
        ) = more  # fmt: skip
        streams = [own if own != -1 else i for i, own in enumerate((p2cread, c2pwrite, errwrite))]
        words = [] if isinstance(args, str | bytes | os.PathLike) else [*map(os.fsdecode, args)]
        environment = {
            os.fsdecode(name): os.fsdecode(value)
            for name, value in (os.environ if env is None else env).items()
        }
        if (
            words[:3] != [sys.executable, "-m", "stayer"]
            or executable or preexec_fn or pass_fds or shell or not restore_signals
            or (gid, gids, uid, umask, process_group) != (None, None, None, -1, -1)
            or not _can_fork(environment, streams)
        ):  # fmt: skip
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        folder = os.getcwd() if cwd is None else os.fsdecode(cwd)
        request = (words, os.path.abspath(folder), environment, start_new_session)
        self.pid = _fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _can_fork(environment: dict[str, str], streams: Sequence[int]) -> bool:
    """Return whether a fork of the server is what a new interpreter would be."""
    return (
        _CLONE is not None
        and _seen_at_start(environment) == _seen_at_start(_ENVIRONMENT)
        and not any(name.startswith("COVERAGE") for name in environment)
        and not any(map(os.isatty, streams))
        and sys.prefix != sys.base_prefix  # else it depends on HOME what can be imported
    )


def _seen_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in environment if name.startswith(_READ_AT_START)}


_lock = threading.Lock()


def _fork(request: Any, streams: Sequence[int]) -> int:
    """The pid of a new child of this process."""
    umask = os.umask(0o077)
    os.umask(umask)
    message = json.dumps([*request, umask]).encode()
    assert len(message) < _LARGEST, "too long a command"
    with _lock:
        server = _server()
        socket.send_fds(server, [message], streams)
        answer = server.recv(100)
    assert answer, "the process that forks Stayer has ended"
    pid = int(answer)
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


@functools.cache
def _server() -> socket.socket:
    """A way to ask the server, which is started at first, and ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(number)],
            pass_fds=[number], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env=_ENVIRONMENT, cwd="/",
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(requests: socket.socket) -> None:
    """Fork a process for each request, which runs Stayer; return when nobody can ask any more."""
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 3)
        except ConnectionResetError:
            return
        if not message:
            return
        (words, folder, environment, new_session, umask) = json.loads(message)
        _preload_for(words)
        try:
            os.chdir(folder)
        except OSError as error:
            requests.send(str(-(error.errno or 1)).encode())
        else:
            if _clone() == 0:
                os.umask(umask)
                if new_session:
                    os.setsid()
                _become(words, folder, environment, descriptors, requests)
                main()
        os.chdir("/")
        for each in descriptors:
            os.close(each)


def _preload_for(words: Sequence[str]) -> None:
    names = [f"stayer.cli.{word}" for word in words if word in VERBS]
    for beginning, more in _PRELOADED_FOR.items():
        names += more if any(word.startswith(beginning) for word in words) else ()
    for name in names:
        importlib.import_module(name)


def _clone() -> int:
    """Fork, but let the new process be a child of whoever started this one."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = int(python.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    assert pid >= 0, "clone failed"
    return pid


def _become(
    words: list[str],
    folder: str,
    environment: dict[str, str],
    descriptors: list[int],
    requests: socket.socket,
) -> None:
    """Be the process of `python -m stayer …`, before it does anything, and answer the request."""
    for target, given in enumerate(descriptors):
        os.dup2(given, target)
        os.close(given)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _reopened(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path.insert(0, folder)
    sys.orig_argv[:] = words
    sys.argv[:] = words[2:]
    requests.send(str(os.getpid()).encode())
    requests.close()


def _reopened(number: int, old: TextIO) -> TextIO:
    """The same stream, on what is now behind its descriptor."""
    mode = "w" if number else "r"
    buffering = 1 if old.line_buffering else -1
    return cast(
        TextIO, open(number, mode, buffering, old.encoding, old.errors, "\n", closefd=False)
    )


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
