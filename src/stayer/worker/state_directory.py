"""The state directory: one worker at a time, its identity, its lease file, its run directories."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import pwd
import re
import shlex
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from stayer.core import ids
from stayer.core.errors import Refused, StoreUnusable
from stayer.core.model import Task
from stayer.keeper import tree
from stayer.worker import remove_later, safe_files
from stayer.worker.run_directory import Run
from stayer.worker.run_layout import GONE, NEW

logger = logging.getLogger("stayer.worker")

_NUMBER_WIDTH = 20
_DIGEST_LENGTH = 16
_LOCK_POLL_S = 0.05
_LOG_WAITING_EVERY_S = 10.0
_ASK_HOLDER_EVERY_S = 5.0
_OWN_FILES = ("lock", "identity", "nursery.log")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def node_name() -> str:
    """Return this machine's name."""
    return socket.gethostname()


class StateDirectory:
    """What a worker knows beside the store; locked while it lives."""

    def __init__(self, path: Path, node: str) -> None:
        self.path = path.absolute()
        self.node = node
        self.worker_id = ""
        self.resumed = False
        self._lock = -1
        self._store: str | None = None

    def open(
        self,
        *,
        take_over: bool = False,
        store: Callable[[], str] | None = None,
        shared: bool = False,
    ) -> None:
        """Take the directory and the identity that is in it, or a new one. `take_over`: also from
        a worker that has it, if that one works for the same store, whose identity `store` asks for.
        `shared`: tasks run as other users, who must be able to reach their part of the run
        directories.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.path / "run").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(
                f"the state directory {self.path} can't be made: {error.strerror}. "
                "Choose another with --state-dir"
            ) from error
        self._refuse_what_is_not_ours()
        how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(self.path / "lock", how, 0o600)
        if shared:
            for folder in (self.path, self.path / "run"):
                folder.chmod(0o711)
        if not self._try_lock():
            self._wait_for_it(take_over, store)
        me = str(os.getpid()).encode()
        os.pwrite(
            self._lock, me.ljust(_NUMBER_WIDTH), 0
        )  # at once: nobody must take us for another
        self._take_identity()
        self.clear_what_was_cut_short()

    def _refuse_what_is_not_ours(self) -> None:
        """Whoever can write here decides what runs as this worker's user."""
        for path in (self.path, self.path / "run", *map(self.path.joinpath, _OWN_FILES)):
            try:
                found = os.stat(path) if path == self.path else os.lstat(path)
            except FileNotFoundError:
                continue
            what = f"{path} of the state directory" if path != self.path else f"{path}"
            if found.st_uid != os.geteuid():
                raise Refused(
                    f"{what} belongs to another user ({_user_name(found.st_uid)}), who could "
                    "decide what this worker runs: choose another with --state-dir, or remove it"
                )
            if stat.S_ISLNK(found.st_mode):
                raise Refused(f"{what} is a link: remove it, or choose another with --state-dir")
            if found.st_mode & 0o022:
                raise Refused(
                    f"other users may write to {what}, and could decide what this worker runs. If "
                    f"you trust what is in it: chmod go-w {shlex.quote(str(path))}"
                )
            if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
                path.chmod(0o600)  # made by an older version

    def close(self) -> None:
        """Let the next worker in."""
        os.close(self._lock)

    def belong_to(self, store: str) -> None:
        """Take the side of the store of this identity; refuse if what lies here is of another."""
        if self._store == store:
            return
        if self._store is not None and any(self.runs()):
            raise Refused(
                f"what runs or has ended in {self.path} belongs to another store: give this worker "
                "a --state-dir of its own, or start it with the store of before. If that one is "
                f"gone for good, remove {self.path / 'run'} once nothing runs there"
            )
        self.join(store)

    def join(self, store: str) -> None:
        """Note that what begins here from now on is of this store."""
        if self._store != store:
            self._store = store
            self._write_identity()

    def forget_identity(self) -> None:
        """Forget the identity: it has taken leave of the store, and will not come back."""
        for path in (self.path / "identity", *self._lease_paths()):
            path.unlink(missing_ok=True)

    def new_identity(self) -> None:
        """Be somebody else from now on: what the old one held is lost to it."""
        self.worker_id = ids.worker_id(self.node, os.getpid(), time.time())
        self.resumed = False
        self._write_identity()

    @property
    def lease_path(self) -> Path:
        """The file that all keepers of this identity read, unless each queue has one of its own."""
        return self.path / f"lease-{self.worker_id}"

    def lease_path_of(self, queue: str) -> Path:
        """Return the file that those of one queue read, where it may be good in some
        queues only.
        """
        digest = sha256(queue.encode()).hexdigest()[:_DIGEST_LENGTH]
        return self.path / f"lease-{self.worker_id}@{digest}"

    @staticmethod
    def holder_of(lease: Path) -> str:
        """Whose lease a file is about."""
        return re.sub(f"@[0-9a-f]{{{_DIGEST_LENGTH}}}$", "", lease.name.removeprefix("lease-"))

    def write_lease(self, until: float, length: float, queue: str | None = None) -> None:
        """Write a lease in place and of fixed width: works on a full disk, and is never seen half
        written.
        """
        line = f"{_boot_id()} {until:020.6f} {length:012.3f}\n"
        _write_in_place(self.lease_path if queue is None else self.lease_path_of(queue), line)

    def lease_length(self) -> float:
        """Return the length of a lease that keepers of this identity were given last; 0 if none."""
        try:
            return float(self.lease_path.read_text().split()[2])
        except (OSError, IndexError, ValueError):
            return 0.0

    def void_lease(self) -> None:
        """Whoever reads it must kill: this identity holds nothing any more."""
        for path in self._lease_paths():
            _write_in_place(path, "void".ljust(70) + "\n")

    def _lease_paths(self) -> list[Path]:
        found = self.path.glob("lease-*")
        return [self.lease_path, *(path for path in found if self._is_of_a_queue(path))]

    def _is_of_a_queue(self, path: Path) -> bool:
        return path != self.lease_path and self.holder_of(path) == self.worker_id

    def runs(self) -> Iterator[Run]:
        """List every run directory that is there."""
        for folder in self.run_folders():
            run = Run(folder)
            if (folder / "task.json").exists() or run.has_keeper():
                yield run

    def run_folders(self) -> list[Path]:
        """Return all that are, or once were, run directories; not those that are being made or
        removed.
        """
        found = (self.path / "run").iterdir()
        return sorted(path for path in found if not path.name.startswith((NEW, GONE)))

    def clear_what_was_cut_short(self) -> None:
        """Remove run directories whose making or removal was cut short. Only when none is being
        made: at the start of a worker, under its lock.
        """
        for path in (self.path / "run").iterdir():
            if path.name.startswith(NEW):
                safe_files.clear(path)
            elif path.name.startswith(GONE):
                remove_later.remove(path)

    def run_for(self, task: Task) -> Run:
        """Return the run directory of an attempt, there or not."""
        # Of any other id a hash: names that are cut, or too long for the disk, could be another's.
        name = (
            task.id if _SAFE_NAME.fullmatch(task.id) else f"%{sha256(task.id.encode()).hexdigest()}"
        )
        return Run(self.path / "run" / f"{name}.{task.attempt}")

    def _wait_for_it(self, take_over: bool, store: Callable[[], str] | None) -> None:
        """Somebody has the directory: refuse, or ask them to leave their tasks to us."""
        holder = self._holder()
        if not take_over:
            os.close(self._lock)
            raise Refused(
                f"another worker (process {holder or '?'}) has {self.path}: let this one run "
                f"beside it, with {self._flag_for_another()}, take over from it with --take-over, "
                "or stop it"
            )
        ours = None if store is None else store()
        asked_at: dict[int, float] = {}
        said_at = time.monotonic() - _LOG_WAITING_EVERY_S
        while not self._try_lock():
            holder = self._holder()
            # Whoever takes over while we wait is asked in its turn: the last one stays. And again:
            # under nohup one is deaf until it has begun to listen.
            now = time.monotonic()
            if (
                holder is not None
                and now >= asked_at.get(holder, -math.inf) + _ASK_HOLDER_EVERY_S
                and self._works_for(ours, holder)
            ):
                asked_at[holder] = now
                with suppress(ProcessLookupError):
                    os.kill(holder, signal.SIGHUP)
            if time.monotonic() >= said_at + _LOG_WAITING_EVERY_S:
                said_at = time.monotonic()
                _log_lock_holder(holder, self.path)
            time.sleep(_LOCK_POLL_S)

    def _works_for(self, store: str | None, holder: int) -> bool:
        """Whether the holder works for this store; not as long as it has not said for which."""
        theirs = _read_identity(self.path).get("store")
        if store is None or theirs == store:
            return True
        if theirs is None:
            return False
        os.close(self._lock)
        raise Refused(
            f"the worker (process {holder}) that has {self.path} belongs to another store, and "
            f"goes on: let this one run beside it, with {self._flag_for_another()}"
        )

    def _flag_for_another(self) -> str:
        return f"--state-dir {shlex.quote(f'{self.path}-2')}"

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _holder(self) -> int | None:
        """Return who has the lock and has said so; None while the next one has not yet."""
        text = os.pread(self._lock, _NUMBER_WIDTH, 0).decode(errors="replace").strip()
        holders = lock_holders(os.fstat(self._lock).st_ino)
        if not text.isdecimal() or (holders and int(text) not in holders):
            return None
        return int(text)

    def _take_identity(self) -> None:
        known = _read_identity(self.path)
        self._store = known.get("store")
        if known and {key: known.get(key) for key in _where(self.path)} == _where(self.path):
            self.worker_id = known["id"]
            self.resumed = True
        else:
            self.new_identity()

    def _write_identity(self) -> None:
        content = {"id": self.worker_id, "store": self._store, **_where(self.path)}
        _replace(self.path / "identity", json.dumps(content))


def belongs_to_another(path: Path, store: str) -> bool:
    """Whether a worker of another store than this has the state directory at the moment."""
    try:
        is_held = bool(lock_holders(os.stat(path / "lock").st_ino))
    except OSError:
        return False
    return is_held and _read_identity(path).get("store") not in (None, store)


def _read_identity(path: Path) -> dict[str, Any]:
    try:
        known = json.loads((path / "identity").read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write_in_place(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, line.encode(), 0)
    finally:
        os.close(descriptor)


def lock_holders(inode: int) -> set[int]:
    """Find who holds the lock, as far as the kernel tells."""
    try:
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return set()
    return {
        int(row[4]) for row in rows if "->" not in row and row[5].rpartition(":")[2] == str(inode)
    }


def _log_lock_holder(holder: int | None, path: Path) -> None:
    fields = None if holder is None else tree.stat(str(holder))
    stopped = fields is not None and fields[tree.STATE] in (b"T", b"t")
    hint = ": it is stopped, continue or kill it" if stopped else ""
    logger.warning("waiting for worker process %s to leave %s%s", holder or "?", path, hint)


def _where(path: Path) -> dict[str, object]:
    """Return what must be the same for an identity to be taken up: not after a reboot, nor in a
    copy.
    """
    seen = os.stat(path)
    return {
        "boot": _boot_id(),
        "namespace": os.readlink("/proc/self/ns/pid"),
        "device": seen.st_dev,
        "inode": seen.st_ino,
    }


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _replace(path: Path, content: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    safe_files.write(temporary, content.encode())
    temporary.replace(path)


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
