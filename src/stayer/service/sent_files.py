"""Files that come along with tasks: sent to the store before, put into place by the worker, and
forgotten when no task needs them any more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

from stayer.core import code
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import Code, Filter, NewTask, SentFile
from stayer.core.units import format_size
from stayer.store import FileStore, Store

KEPT_S = 86400.0
"""How long a file is kept that no task names: its task may be about to come."""
_PAGE = 500
_AT_ONCE = 100


class FileGone(Exception):
    """A file that a task needs is not in the store, or is another."""


def send(store: FileStore, path: str | os.PathLike[str], name: str | None = None) -> SentFile:
    """Send a file of this machine to the store, unless it is there; return what names it in a
    task. `name` is what the task calls it, if not as it is called here.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder: send its files one by one, or as one archive")
    try:
        with open(path, "rb") as file:
            data = file.read(code.FILE_LIMIT + 1)
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise BadInput(f"{path} can't be sent: {error.strerror}") from None
    if len(data) > code.FILE_LIMIT:
        raise TooLarge(
            f"{path} is over {format_size(code.FILE_LIMIT)}, more can't be sent: put it where the "
            "worker can read it, and pass where that is"
        )
    sha256 = hashlib.sha256(data).hexdigest()
    sent = SentFile(
        code.check_file_name(sent_name(path) if name is None else name), sha256, len(data),
        executable=bool(mode & 0o100),
    )  # fmt: skip
    if not store.put_file(sha256, None):
        store.put_file(sha256, data)
    return sent


def sent_name(path: str) -> str:
    """Return what a task calls a file: its path as it was given, if that leads down from here."""
    plain = os.path.normpath(path)
    return os.path.basename(plain) if os.path.isabs(plain) or plain.startswith("..") else plain


def keep(store: FileStore, tasks: Iterable[NewTask]) -> None:
    """See to it that the files of these tasks stay until they are submitted; BadInput if one is
    not there. A server looks itself.
    """
    if store.remote_operator is not None:
        return
    seen: set[str] = set()
    for new in tasks:
        if new.code is not None and new.code.files:
            for file in new.code.files:
                if file.sha256 not in seen and not store.put_file(file.sha256, None):
                    raise BadInput(
                        f"file {file.name} ({file.sha256}) is not in the store: send it first"
                    )
                seen.add(file.sha256)


def fetch(store: FileStore, asked: Code | None) -> list[tuple[SentFile, bytes]]:
    """Read the files that came along with a task; raises FileGone, and BadInput if they are more
    than anybody could have sent: all of them are in memory at once.
    """
    if asked is None or not asked.files:
        return []
    code.check("code", asked)
    found = []
    for file in asked.files:
        data = store.get_file(file.sha256)
        if data is None:
            raise FileGone(f"{file.name}, which was sent along, is no longer in the store")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise FileGone(f"{file.name}, which was sent along, was changed in the store")
        if len(data) != file.size:
            raise FileGone(
                f"{file.name}, which was sent along, has {len(data):,} bytes, and its task says "
                f"{file.size:,}: send it again"
            )
        found.append((file, data))
    return found


def forget_unused(store: Store) -> list[str]:
    """Forget files that nobody has sent for a day, and no task or schedule names; return which.
    Reads all tasks that came with files, but only if there is one that might go: those that stay
    are not looked at again for a day.
    """
    before = store.now() - KEPT_S
    old = store.old_files(before, _AT_ONCE)
    if not old:
        return []
    named = _named(store)
    for sha256 in old:
        if sha256 in named:
            store.put_file(sha256, None)
    unused = [sha256 for sha256 in old if sha256 not in named]
    store.drop_files(unused, before)
    return unused


def _named(store: Store) -> set[str]:
    named = {sha for each in store.schedules() for sha in _hashes(each.task.code)}
    cursor: str | None = None
    while True:
        page = store.find(Filter(has_files=True), cursor, _PAGE)
        named.update(sha for task in page.tasks for sha in _hashes(task.code))
        cursor = page.next
        if cursor is None:
            return named


def _hashes(asked: Code | None) -> Sequence[str]:
    return () if asked is None else [file.sha256 for file in asked.files]
