"""The worker's side of a run directory: see `docs/reference/run-directory.md`."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stayer.core import codec, limits
from stayer.core.errors import BadInput
from stayer.core.model import JSON, SentFile, Task, Value
from stayer.keeper import tree
from stayer.keeper.kernel import contents
from stayer.worker import remove_later, safe_files
from stayer.worker.run_creation import make
from stayer.worker.run_layout import (
    JSON_LIMIT_BYTES,
    NEW,
    REFUSED_RESULT_FILE,
    TASK_PART,
    in_blocks,
    read_object,
)
from stayer.worker.run_removal import discard, put_away

_RESULT_FILE_LIMIT_BYTES = limits.WRITTEN
"""As it is written: what is longer is refused unread."""
_TAIL_BYTES = 2000
"""How much of its output is told of a task that failed."""
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_STAT_PARENT = 1
"""The place of the parent's pid in `tree.Stat`."""
_DEAD_STATES = (b"Z", b"X")
_NO_NURSERY = (-1, -1)
_NURSERY_COMM = b"stayer-nursery\n"
_LONGEST_PREPARATION_S = 1e6
"""A longer one is not believed: a task can write what it likes."""
_ANSWER = "pinned"


class Run:
    """One attempt's folder, and the process that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._part: safe_files.Part | None = None
        self.has_begun = False
        """Its keeper was seen at work."""
        self._pidfd: int | None = None
        self._nursery: tuple[int, int] | None = None
        self._seen: dict[str, tuple[object, dict[str, Any] | None]] = {}
        self._prepared: dict[str, Any] | None = None
        self._code_folder: str | None = None

    def prepare(
        self,
        task: Task,
        keeper: dict[str, Any],
        checkpoint: bytes | None,
        inputs: dict[str, JSON] | None = None,
        code: dict[str, Any] | None = None,
        files: Sequence[tuple[SentFile, bytes]] = (),
    ) -> None:
        """Write all that keeper and task need. It is made under another name: there is a whole one
        or none.
        """
        if self.folder.exists():  # of a task that had the same id, in this store or another
            if not self.void():
                raise OSError(errno.EBUSY, "a keeper is at work there", str(self.folder))
            self.close()
            discard(self.folder)
        self._make_place()
        if keeper.get("user"):
            self.folder.parent.chmod(0o711)
        new = self.folder.with_name(NEW + self.folder.name)
        safe_files.clear(new)
        try:
            make(new, task, keeper, checkpoint, inputs, code, files)
            new.rename(self.folder)
        except BaseException:
            safe_files.clear(new)  # the disk may be full
            raise

    def _make_place(self) -> None:
        """Make the folder that it lies in, should somebody have deleted all of them."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def task_folder(self) -> Path:
        """The part that the task has: what it calls STAYER_DIR."""
        return self.folder / TASK_PART

    @property
    def part(self) -> safe_files.Part:
        """The files that the task writes. One that an older worker made has no part of its own for
        them.
        """
        if self._part is None or not self._part.is_apart:
            found = safe_files.Part.of(self.task_folder)
            self._part = found or safe_files.Part(self.folder)
        return self._part

    def is_there(self) -> bool:
        """Nobody has deleted it, or the task's part of it."""
        return self.folder.exists() and (not self.part.is_apart or self.task_folder.exists())

    @property
    def description(self) -> dict[str, Any]:
        """What `task.json` says."""
        content: dict[str, Any] = json.loads(
            safe_files.read(self.folder / "task.json", JSON_LIMIT_BYTES)
        )
        return content

    @property
    def fence(self) -> str | None:
        """What the keeper was told to do without a lease."""
        return self._keeper_settings().get("fence")

    @property
    def first_limits(self) -> dict[str, Any]:
        """Those that the keeper was told of at the start."""
        limits = self._keeper_settings().get("limits")
        return limits if isinstance(limits, dict) else {}

    @property
    def is_runner(self) -> bool:
        """Its process is a runner of ours, for a class or an app."""
        return self._keeper_settings().get("stack_signal") is not None

    @property
    def prepares(self) -> bool:
        """Its process prepares the code of the task before it becomes the task."""
        return self.code_folder is not None

    @property
    def code_folder(self) -> str | None:
        """Where environments of such tasks are kept."""
        # Asked for many times in each attempt's life, and written once.
        if self._code_folder is None and (settings := self._keeper_settings()):
            folder = settings.get("code_folder")
            self._code_folder = folder if isinstance(folder, str) else ""
        return self._code_folder or None

    @property
    def default_code(self) -> dict[str, Any] | None:
        """The default of its worker that its process resolves: `key`, and its `git`; None if it
        resolves what the task asks for.
        """
        found = self._keeper_settings().get("default_code")
        return found if isinstance(found, dict) else None

    @property
    def later_limits(self) -> dict[str, float]:
        """The limits of the task that count from when its code is prepared."""
        limits = self._keeper_settings().get("later_limits")
        return limits if isinstance(limits, dict) else {}

    @property
    def longest_preparation(self) -> float:
        """How many seconds a preparation has at most, where the time of the task is limited."""
        first, later = self.first_limits.get("time"), self.later_limits.get("time")
        return _LONGEST_PREPARATION_S if first is None or later is None else first - later

    def read_preparation(self, name: str) -> dict[str, Any] | None:
        """Read what its process says of the preparation; None if nothing, yet."""
        if self.part.stat(name) is None:
            return None
        return read_object(lambda: self.part.read(name, JSON_LIMIT_BYTES))

    @property
    def prepared(self) -> dict[str, Any] | None:
        """What it says when its code is there; None before that, and if there was none to have."""
        if self._prepared is None and self.prepares:
            self._prepared = self.read_preparation("prepared")
        return self._prepared

    @property
    def prepared_for(self) -> float:
        """How many seconds of its life went into that; 0 before it is over."""
        took = (self.prepared or {}).get("took")
        if not isinstance(took, int | float) or not 0.0 <= took < _LONGEST_PREPARATION_S:
            return 0.0
        return float(took)

    @property
    def is_answered(self) -> bool:
        """What it resolved was pinned, or refused."""
        return (self.folder / _ANSWER).exists()

    def answer(self, content: dict[str, Any]) -> None:
        """Say what its code is pinned to; the task's user may read it."""
        new = self.folder / f"{_ANSWER}.new"
        safe_files.write(new, json.dumps(content).encode())
        new.chmod(0o644)
        new.replace(self.folder / _ANSWER)

    def _keeper_settings(self) -> dict[str, Any]:
        keeper = (self._read("task.json") or {}).get("keeper")
        return keeper if isinstance(keeper, dict) else {}

    def read_given_checkpoint(self) -> object:
        """Return the signature of the checkpoint that the attempt was given, to tell it from one
        that it wrote.
        """
        given = (self._read("task.json") or {}).get("given_checkpoint")
        return tuple(given) if isinstance(given, list) else None

    @property
    def process_status(self) -> dict[str, Any] | None:
        """What the keeper says, once the process runs; None if it is not its words."""
        found = self._read_if_new("running")
        return found if found is not None and _is_from_keeper(found) else None

    @property
    def exit(self) -> dict[str, Any] | None:
        """How it ended; None while it goes on."""
        return self._read_if_new("exit")

    @property
    def keeper_orders(self) -> dict[str, Any]:
        """What has been asked of the keeper."""
        return self._read("go") or {}

    def has_ended(self) -> bool:
        return self._stat_keeper_file("exit") is not None

    def end_recorded_at(self) -> float | None:
        """Return when somebody wrote how it ended, by the wall clock."""
        found = self._stat_keeper_file("exit")
        return None if found is None else found.st_mtime

    def declare_end(self, content: dict[str, Any]) -> None:
        """Say how it ended in the place of a keeper that can't any more."""
        text = json.dumps(content)
        try:
            self._replace("exit", text)
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRORS:
                raise
            reserved = self.folder / "exit.tmp"  # by the keeper, for this
            safe_files.write(reserved, text.encode())
            reserved.replace(self.folder / "exit")

    def has_keeper(self) -> bool:
        """Return whether a keeper holds the lock."""
        try:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(lock)

    def void(self) -> bool:
        """See to it that no keeper ever starts here; False if one is at it."""
        if self.keeper_lives():  # its lock may have been deleted
            return False
        self._make_place()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        safe_files.make_way(self.folder / "lock")
        how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        lock = os.open(self.folder / "lock", how, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            safe_files.write(self.folder / "void", b"")
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(lock)

    def order(self, **wanted: object) -> None:
        """Add to what is asked of the keeper, and make it look.

        What can't be asked to end, for want of even the space that was laid by, is ended.
        """
        content = json.dumps({**self.keeper_orders, **wanted}).encode()
        try:
            self._ask(in_blocks(content))
        except OSError:
            if "stop" not in wanted or not self.signal_keeper(signal.SIGKILL):
                raise
        else:
            self.signal_keeper(signal.SIGUSR1)

    def _ask(self, words: bytes) -> None:
        go, new = self.folder / "go", self.folder / "go.new"
        try:
            safe_files.write(new, words)
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRORS:
                raise
            safe_files.clear(new)
            self._ask_on_a_full_disk(words)
        else:
            safe_files.make_way(go)
            new.replace(go)

    def _ask_on_a_full_disk(self, words: bytes) -> None:
        """Write over the spare file; the one whose place it takes becomes the spare one."""
        go, spare, old = (self.folder / name for name in ("go", "go.spare", "go.old"))
        found = safe_files.stat_file(spare)
        if found is None or found.st_size < len(words):
            raise OSError(errno.ENOSPC, "no space for an order", str(go))
        safe_files.write(spare, words.ljust(found.st_size))
        safe_files.clear(old)
        with suppress(OSError):
            os.link(go, old, follow_symlinks=False)
        safe_files.make_way(go)
        spare.replace(go)
        with suppress(OSError):
            old.replace(spare)

    def signal_keeper(self, number: int) -> bool:
        """Signal the keeper; False if there is none that could hear it."""
        descriptor = self.pidfd()
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def pidfd(self) -> int | None:
        """Return a descriptor that becomes readable when the keeper ends."""
        if self._pidfd is None:
            running = self.process_status
            if running is not None:
                self.has_begun = True
                self._pidfd = _pidfd_of(running["keeper"], running["keeper_started"])
                if self._pidfd is not None:
                    self._nursery = _nursery_of(running["keeper"])
        return self._pidfd

    def keeper_lives(self) -> bool:
        """Return whether the keeper that `process_status` names lives, whether or not it has the
        lock.
        """
        return self.pidfd() is not None and not self.is_keeper_gone()

    def is_keeper_gone(self) -> bool:
        """Return whether the keeper that was watched is gone; False also if none was."""
        if self._pidfd is None:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def is_orphan(self) -> bool:
        """Return whether its keeper began, is gone, and did not say how it ended."""
        if self.pidfd() is None:
            has_begun = self.has_begun or safe_files.stat_file(self.folder / "exit.tmp") is not None
            if not has_begun or self.has_keeper():
                return False
        return (self._pidfd is None or self.is_keeper_gone()) and not self.has_ended()

    def nursery_is_gone(self) -> bool:
        """Return whether the parent of its keeper, which would speak for it, is gone; False if it
        is not known.
        """
        if self._nursery is None:
            return False
        pid, started = self._nursery
        fields = tree.stat(str(pid))
        return fields is None or fields[tree.STATE] in _DEAD_STATES or tree.started(pid) != started

    def result(self) -> Value:
        """Return what the task left as its result: JSON, else a line of text, else the bytes.

        Raises NotPlainFile and TooLong.
        """
        small = (self.exit or {}).get("result")
        try:
            data = (
                small.encode()
                if isinstance(small, str)
                else self.part.read("result", _RESULT_FILE_LIMIT_BYTES)
            )
        except FileNotFoundError:
            return None
        try:
            return codec.parse(data, "result") if data.strip() else None
        except BadInput:
            pass
        try:
            return data.decode().removesuffix("\n")
        except UnicodeDecodeError:
            return data

    def keep_result(self) -> Path:
        """Put a result that the store won't take where `remove` leaves it."""
        kept = self.part.folder / REFUSED_RESULT_FILE
        if not self.has_refused_result():
            (self.part.folder / "result").replace(kept)
        return kept

    def has_refused_result(self) -> bool:
        """Return whether the store refused its result, at an earlier try to commit the outcome."""
        return self.part.stat(REFUSED_RESULT_FILE) is not None

    def error(self) -> dict[str, Any] | None:
        """Return what a Python task said of its failure."""
        return read_object(lambda: self.part.read("error", JSON_LIMIT_BYTES))

    def log_tail(self) -> str:
        """Return the last lines of its output."""
        found = self.part.stat("log")
        if found is None:
            return ""
        start = max(0, found.st_size - _TAIL_BYTES)
        try:
            return self.part.read_part("log", start, _TAIL_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def remove(self) -> None:
        """Remove it: the store has all of it but a result that it refused, which stays here."""
        self.put_away()()

    def put_away(self) -> Callable[[], None]:
        """Free its name at once, and return what removes it, which may take a while."""
        self.close()
        settings = self._keeper_settings()
        if words := settings.get("at_removal"):
            remove_later.run(self.folder, words, settings.get("env") or {}, settings.get("user"))
        return put_away(self.folder)

    def close(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _read(self, name: str) -> dict[str, Any] | None:
        return read_object(lambda: safe_files.read(self.folder / name, JSON_LIMIT_BYTES))

    def _read_if_new(self, name: str) -> dict[str, Any] | None:
        """These are replaced when they change, and asked for many times in between."""
        found = self._stat_keeper_file(name)
        if found is None:
            return None
        signature = found.st_ino, found.st_mtime_ns, found.st_size
        known = self._seen.get(name)
        if known is None or known[0] != signature:
            known = self._seen[name] = signature, self._read(name)
        return known[1]

    def _stat_keeper_file(self, name: str) -> os.stat_result | None:
        """Look at a file that its keeper writes, which it renames over whatever is there, but can't
        over a folder.
        """
        path = self.folder / name
        found = safe_files.stat_file(path)
        if found is None:
            safe_files.make_way(path)
        return found

    def keep_statistics(self, content: str) -> None:
        """Keep what was read of the task's own statistics, for the next worker."""
        self._replace("statistics", content)

    def _replace(self, name: str, content: str) -> None:
        temporary = self.folder / (name + ".new")
        safe_files.write(temporary, content.encode())
        safe_files.make_way(self.folder / name)
        temporary.replace(self.folder / name)


def _nursery_of(keeper: int) -> tuple[int, int] | None:
    """Pid and start of its parent, or those of nobody; None: it is gone, and can't tell."""
    fields = tree.stat(str(keeper))
    if fields is None:
        return None
    parent = int(fields[_STAT_PARENT])
    started = tree.started(parent)
    if started is None or contents(f"/proc/{parent}/comm") != _NURSERY_COMM:
        return _NO_NURSERY
    return parent, started


def _pidfd_of(pid: int, started: int) -> int | None:
    """Open a pidfd of just this process, not of another that got its number."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if tree.started(pid) == started:
        return descriptor
    os.close(descriptor)
    return None


def _is_from_keeper(content: dict[str, Any]) -> bool:
    numbers = (content.get(name) for name in ("pid", "keeper", "keeper_started"))
    return all(isinstance(number, int) for number in numbers) and isinstance(
        content.get("stopped"), list
    )
