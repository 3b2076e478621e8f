"""`--task-user`: tasks run as other users than their worker, which is root's.

Keeper, nursery and worker stay root's. A task's process becomes its user before it becomes the
program, so nothing of the worker's is within its reach.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from stayer.core.errors import BadConfig
from stayer.core.patterns import any_matches
from stayer.core.refused_tasks import list_some
from stayer.worker import safe_files
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.ask_process import ProcessInterrupted, describe_signal
from stayer.worker.run_layout import NEW

logger = logging.getLogger("stayer.worker")

_SHARED_VARIABLES = ("LANG", "LANGUAGE", "LC_*", "LD_LIBRARY_PATH", "PATH", "PYTHON*", "TZ")
"""Variables of the worker that its tasks get too: where programs are, and how to read and write.
All others may be secrets of root's."""
_TRIAL_TIMEOUT_S = 60.0
"""How long a trial may take."""
_TRIAL_ANSWER_BYTES = 65536
"""How much a trial may answer: no more than a pipe holds."""
_TRIAL_CONTENT = b"a task of this user was here"
GUARD = """
import os
from stayer.keeper.kernel import die_with_parent, set_dumpable
set_dumpable(False)
die_with_parent(os.getppid())
"""
"""What a process of this user's does first, if it is to tell its worker something: no other one of
that user can look into it then, or write to its pipes. It still can before that."""
_TRIAL_PROGRAM = """
import json, os, sys
try:
    exec(sys.argv[1])
except Exception:
    pass  # what is wrong is found out below
about = json.loads(sys.stdin.readline())
def said():
    try:
        os.chdir(about["cwd"])
    except OSError as error:
        return f"can't enter {about['cwd']}, where this worker was started: {error.strerror}"
    try:
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(os.path.join(about["folder"], "trial"), how, 0o600)
        os.write(file, about["word"].encode())
    except OSError as error:
        return (
            f"can't reach its files in {about['folder']}: {error.strerror}. Choose a --state-dir "
            "that all users can reach, such as one below /var/lib"
        )
    try:
        import stayer.task.__main__
    except Exception as error:
        return f"can't import stayer.task: {error}"
    if about["program"]:
        import shutil
        if shutil.which(about["program"]) is None:
            return f"can't run {about['program']}: it can't reach it, or may not execute it"
print(json.dumps(said()), flush=True)
sys.stdin.read()
"""


class TaskUser(Struct, frozen=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @classmethod
    def from_name(cls, name: str) -> TaskUser:
        """Look up a user; raises BadConfig if there is no such user, or if it is root."""
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise BadConfig(f"--task-user {name}: there is no such user on this machine") from None
        if found.pw_uid == 0:
            raise BadConfig(
                f"--task-user {name}: that is root, as is the worker itself: name another user"
            )
        groups = tuple(sorted(os.getgrouplist(name, found.pw_gid)))
        return cls(name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)

    def for_keeper(self) -> dict[str, object]:
        """Return what its keeper needs to make a process of this user's."""
        return {
            "uid": self.uid,
            "gid": self.gid,
            "groups": list(self.groups),
            "umask": _umask(),
        }

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process of this user's, from those of the worker."""
        kept = {
            name: value for name, value in inherited.items() if any_matches(name, _SHARED_VARIABLES)
        }
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}
        return {**kept, **own}

    def as_process(self) -> dict[str, Any]:
        """Return the arguments of `subprocess` that make a process this user's."""
        return {
            "user": self.uid,
            "group": self.gid,
            "extra_groups": list(self.groups),
            "env": self.environment(os.environ),
            # Without root's terminal, to which it could type.
            "start_new_session": True,
        }


class TaskUsers(Struct, frozen=True):
    """Which user the tasks of a queue run as."""

    by_queue: dict[str, TaskUser] = {}
    others: TaskUser | None = None
    """For queues that are not named; None: the worker's own user."""

    def of(self, queue: str) -> TaskUser | None:
        """None: the worker's own user, if it was told of no others at all. Raises NotAllowed: a
        queue that nobody named must not be the way to run tasks as root.
        """
        user = self.by_queue.get(queue, self.others)
        if user is None and self.by_queue:
            raise NotAllowed(
                f"no --task-user names whose processes those of {list_some([queue])} are"
            )
        return user

    def all(self) -> list[TaskUser]:
        """List each user once."""
        some = [*self.by_queue.values(), *([self.others] if self.others else [])]
        return list(dict.fromkeys(some))


def task_users(wanted: Sequence[str], queues: Iterable[str]) -> TaskUsers:
    """Read `NAME` and `QUEUE=NAME`; raises BadConfig for what can't be."""
    if not wanted:
        return TaskUsers()
    if os.geteuid() != 0:
        raise BadConfig(
            "--task-user needs a worker that root has started: no other user can run tasks as "
            "somebody else. Leave it out to run them as this user"
        )
    by_queue: dict[str, TaskUser] = {}
    others: TaskUser | None = None
    for each in wanted:
        queue, separator, name = each.rpartition("=")
        user = TaskUser.from_name(name)
        if not separator:
            if others is not None:
                raise BadConfig(
                    f"--task-user {others.name} and {name}: one of them, or QUEUE=NAME for each"
                )
            others = user
        elif by_queue.setdefault(queue, user) != user:
            raise BadConfig(f"--task-user {each}: another user was named for queue {queue} before")
    missing = [queue for queue in queues if queue not in by_queue] if others is None else []
    if missing:
        raise BadConfig(
            f"--task-user names no user for queue {missing[0]}, whose tasks would run as root: add "
            f"--task-user {missing[0]}=NAME, or one without a queue for all others"
        )
    return TaskUsers(by_queue, others)


def try_out(user: TaskUser, runs: Path, program: str | None) -> None:
    """Start a process of this user's, and end it: what can't work is said before a task is taken.

    `program` is what it must be able to run. Raises BadConfig. Tasks of that user that still run
    can do to this process what they like: a trial that does not come to an end says nothing.
    """
    # They can't list the folder that it is in, so they don't know its name.
    folder = runs / f"{NEW}trial-{secrets.token_hex(16)}"
    folder.mkdir(mode=0o700)
    about = {
        "cwd": os.getcwd(),
        "folder": str(folder),
        "word": _TRIAL_CONTENT.decode(),
        "program": program,
    }
    try:
        os.chown(folder, user.uid, user.gid)
        trouble = _try(user, about)
        if (
            trouble is None
            and safe_files.read(folder / "trial", len(_TRIAL_CONTENT)) != _TRIAL_CONTENT
        ):
            trouble = "can't write its files"
    except OSError as error:
        trouble = f"can't be given files of its own by this worker: {error.strerror}"
    except ProcessInterrupted as error:
        logger.warning("--task-user %s could not be tried out: %s", user.name, error)
        return
    finally:
        safe_files.clear(folder)
    if trouble is not None:
        raise BadConfig(f"--task-user {user.name}: that user {trouble}")


def _try(user: TaskUser, about: Mapping[str, object]) -> str | None:
    """Try it, and return what is wrong; None if nothing is. Raises ProcessInterrupted."""
    # Nothing is waited for that other processes of this user could hold open, or keep silent; and
    # nothing of theirs runs in it: they may write to the folders in which Python looks for theirs.
    try:
        trial = subprocess.Popen(
            [sys.executable, "-s", "-P", "-c", _TRIAL_PROGRAM, GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **user.as_process(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"can't run {_python()}: {getattr(error, 'strerror', None) or error}"
    assert trial.stdin is not None
    assert trial.stdout is not None
    assert trial.stderr is not None
    with trial.stdin, trial.stdout, trial.stderr:
        # Not in its words, which all can read.
        with suppress(BrokenPipeError):
            os.write(trial.stdin.fileno(), json.dumps(about).encode() + b"\n")
        line = _line_of(trial.stdout.fileno())
        try:
            trial.kill()
        except PermissionError:
            return (
                "can't be killed by this worker: give it the capability CAP_KILL, or leave "
                "--task-user out"
            )
        code = trial.wait()
        complaint = _complaint(trial.stderr.fileno())
    if line is None:
        raise ProcessInterrupted("it did not end in time")
    if line:
        return _parse_answer(line)
    if code < 0:
        raise ProcessInterrupted(describe_signal(code))
    return f"can't run {_python()}: {complaint}"


def _complaint(descriptor: int) -> str:
    """Return the last line of what is there."""
    os.set_blocking(descriptor, False)
    try:
        answer = os.read(descriptor, _TRIAL_ANSWER_BYTES)
    except BlockingIOError:
        answer = b""
    last = answer.decode(errors="replace").strip().splitlines()[-1:]
    return last[0][:1000] if last else "it said nothing"


def _line_of(descriptor: int) -> bytes | None:
    """Return what comes before the end of a line, or the end of all; None if neither
    comes in time.
    """
    until, line = time.monotonic() + _TRIAL_TIMEOUT_S, b""
    while (left := until - time.monotonic()) > 0 and len(line) < _TRIAL_ANSWER_BYTES:
        if not select.select([descriptor], [], [], left)[0]:
            return None
        piece = os.read(descriptor, _TRIAL_ANSWER_BYTES)
        line += piece
        if not piece or line.endswith(b"\n"):
            return line
    return None


def _parse_answer(line: bytes) -> str | None:
    try:
        found = json.loads(line)
    except ValueError:
        found = 0
    if found is None or isinstance(found, str):
        return found
    raise ProcessInterrupted("somebody else spoke for it")


def _python() -> str:
    """Name this Python, with where its links lead: often into a home that nobody else can enter."""
    real = os.path.realpath(sys.executable)
    return sys.executable if real == sys.executable else f"{sys.executable} (a link to {real})"


def _umask() -> int:
    """Return the umask of this process, which can be read only by changing it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
