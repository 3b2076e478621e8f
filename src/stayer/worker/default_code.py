"""The code of tasks that ask for none: `--with`, `--requirements`, `--python`, `--git` of a worker.

Whoever starts the worker has said it, so no `--allow-code` need name it, nor what its packages
bring along. Later attempts run what the first one was pinned to. That stands in the store, where
others may write: so only packages that this default was seen to bring along are taken from there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from stayer.core import code as rules
from stayer.core.model import Code, Pinned


class DefaultCode:
    """The default of a worker, and what is known of it on this machine."""

    def __init__(self, code: Code, folder: Path) -> None:
        """`folder` is where it is remembered what it brings along."""
        self.code = code
        self.key = hashlib.sha256(msgspec.json.encode(code)).hexdigest()[:32]
        self._repository = rules.repository(code.git) if code.git else None
        self._file = folder / f"default-{self.key}.json"
        self._names = {*map(rules.requirement_name, code.requirements), *self._read()}

    @property
    def git(self) -> str | None:
        """The repository as a pin names it: `URL[#FOLDER]`."""
        if self._repository is None:
            return None
        folder = self._repository.folder
        return self._repository.url + (f"#{folder}" if folder else "")

    def learn(self, lines: Iterable[str]) -> None:
        """Note what its packages bring along: it was resolved here."""
        names = set(map(rules.requirement_name, lines))
        if names <= self._names:
            return
        self._names |= names
        new = self._file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # then it is resolved once more after a restart
            new.write_text(json.dumps(sorted(self._names)))
            new.replace(self._file)

    def unknown(self, pinned: Pinned, lines: Iterable[str]) -> tuple[list[str], str | None]:
        """Return the packages, and the repository, that did not come by this default."""
        names = [
            name for line in lines if (name := rules.requirement_name(line)) not in self._names
        ]
        url = None if pinned.git is None else rules.repository(pinned.git).url
        return names, None if self._repository and url == self._repository.url else url

    def _read(self) -> list[str]:
        with suppress(OSError, ValueError):
            found = json.loads(self._file.read_text())
            return [name for name in found if isinstance(name, str)]
        return []
