"""Folders of git repositories: a ref becomes a commit, a commit becomes files.

A copy of what was fetched is kept for each address, so that a repository that is gone still serves
what was taken from it. Nothing of a repository runs: no hooks, no filters, no submodules.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time

from .cache import Lock
from .programs import Programs, Unprepared

_POLL_S = 0.05
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "submodule.recurse=false", "-c", "protocol.allow=never",
    "-c", "protocol.https.allow=always", "-c", "protocol.http.allow=always",
    "-c", "protocol.ssh.allow=always", "-c", "protocol.file.allow=always",
)  # fmt: skip


class Repository:
    """The copy of one, by its address."""

    def __init__(self, programs: Programs, git: str, folder: str, url: str) -> None:
        self._programs = programs
        self._git = git
        self._url = url
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._path = os.path.join(folder, hashlib.sha256(url.encode()).hexdigest()[:32])

    def resolve(self, ref: str) -> str:
        """Return the commit that a branch, a tag or a beginning of a commit means now."""
        if _COMMIT.fullmatch(ref):
            return ref
        asked = (ref, f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}")
        listed = self._run("ls-remote", "--", self._url, *(asked if ref != "HEAD" else ("HEAD",)))
        rows = (line.split("\t") for line in listed.splitlines() if "\t" in line)
        found = {name: commit for commit, name in rows}
        # An annotated tag is an object of its own, which its commit stands behind.
        for name in (*reversed(asked), ref):
            if _COMMIT.fullmatch(found.get(name, "")):
                return found[name]
        return self._resolve_here(ref)

    def check_out(self, commit: str, target: str) -> None:
        """Write the files of a commit to a new folder."""
        if not self._has(commit):
            self._fetch(commit)
        os.mkdir(target, 0o700)
        index = f"{target}.index"
        here = ("-c", "core.bare=false", f"--work-tree={target}")
        try:
            for words in (("read-tree", commit), ("checkout-index", "--all", "--force")):
                self._run_here(*here, *words, index=index, cwd=target)
        finally:
            if os.path.exists(index):
                os.unlink(index)

    def _resolve_here(self, ref: str) -> str:
        """Resolve it by all that there is: `ls-remote` knows no part of a commit."""
        self._fetch_all()
        try:
            said = self._run_here("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").strip()
        except Unprepared:
            said = ""
        if not _COMMIT.fullmatch(said):
            raise Unprepared(f"{self._url} has no branch, tag or commit {ref}")
        return said

    def _has(self, commit: str) -> bool:
        if not os.path.isdir(self._path):
            return False
        try:
            self._run_here("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
        except Unprepared:
            return False
        return True

    def _fetch(self, commit: str) -> None:
        self._make()
        target = f"+{commit}:refs/stayer/{commit}"
        with _Alone(self._path, self._programs):
            try:
                self._run_here("fetch", "--no-tags", "--depth=1", "--", self._url, target)
            except Unprepared as error:
                if error.passing:
                    raise
        if not self._has(commit):  # a server that gives no single commits
            self._fetch_all()
        if not self._has(commit):
            raise Unprepared(f"{self._url} has no commit {commit}")

    def _fetch_all(self) -> None:
        self._make()
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        with _Alone(self._path, self._programs):
            self._run_here("fetch", "--no-tags", "--", self._url, *refs)

    def _make(self) -> None:
        with _Alone(self._path, self._programs):
            if not os.path.exists(os.path.join(self._path, "HEAD")):
                self._run("init", "--quiet", "--bare", "--", self._path)

    def _run_here(self, *words: str, index: str | None = None, cwd: str = "/") -> str:
        more = {} if index is None else {"GIT_INDEX_FILE": index}
        return self._run(f"--git-dir={self._path}", *words, cwd=cwd, **more)

    def _run(self, *words: str, cwd: str = "/", **variables: str) -> str:
        return self._programs.run([self._git, *_SAFE, *words], cwd=cwd, variables=variables)


class _Alone:
    """Keeps others from changing a copy at the same time."""

    def __init__(self, path: str, programs: Programs) -> None:
        self._path = path
        self._lock = Lock(path)
        self._programs = programs

    def __enter__(self) -> None:
        while not self._lock.take(fcntl.LOCK_EX):
            if not self._lock.is_current():  # somebody has deleted it: another counts now
                self._lock.close()
                self._lock = Lock(self._path)
            self._programs.show_life()
            time.sleep(_POLL_S)

    def __exit__(self, *_: object) -> None:
        self._lock.close()
