"""Folders of git repositories: a ref becomes a commit, a commit becomes files.

A copy of what was fetched is kept for each address, so that a repository that is gone still serves
what was taken from it. Nothing of a repository runs: no hooks, no filters, no submodules.

Some servers give out more under an address than those who own the repository have put there: who
opens a pull request adds commits of his own. So where an address was allowed, and not anything
there is, a commit has to be in the history of a branch or a tag.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator

from .cache import POLL_S, Lock, copies, remove_tree
from .programs import Programs, Unprepared

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAMED = ("refs/heads/", "refs/tags/")
_SAY_WHICH = (
    "under this address, only these are allowed here, because whoever opens a pull request can add "
    "other commits. Push it to a branch, or tag it"
)
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false", "-c", "submodule.recurse=false", "-c", "protocol.allow=never",
    "-c", "protocol.https.allow=always", "-c", "protocol.http.allow=always",
    "-c", "protocol.ssh.allow=always", "-c", "protocol.file.allow=always",
)  # fmt: skip


class Repository:
    """The copy of one, by its address."""

    def __init__(
        self, programs: Programs, git: str, folder: str, url: str, *, any_commit: bool
    ) -> None:
        """`any_commit`: also one that is in no branch or tag."""
        self._programs = programs
        self._git = git
        self._url = url
        self._any_commit = any_commit
        os.makedirs(folder, mode=0o700, exist_ok=True)
        first = os.path.join(folder, hashlib.sha256(url.encode()).hexdigest()[:32])
        self._copies = tuple(copies(first))
        self._path = first

    def resolve(self, ref: str) -> str:
        """Return the commit that a branch, a tag or a beginning of a commit means now."""
        if _COMMIT.fullmatch(ref):
            return ref
        if not self._any_commit and ref.startswith("refs/") and not ref.startswith(_NAMED):
            raise Unprepared(f"{ref} is no branch or tag: {_SAY_WHICH}")
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
        """Return whether it is in a copy, which is used from then on."""
        for path in filter(os.path.isdir, self._copies):
            self._path = path
            try:
                self._run_here("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
            except Unprepared:
                continue
            return True
        return False

    def _fetch(self, commit: str) -> None:
        is_free = self._any_commit or self._is_newest(commit)
        if is_free:
            self._fetch_alone(commit)
        if not is_free or not self._has(commit):  # a server that gives no single commits
            self._fetch_all()
        if not is_free and not self._is_named(commit):
            raise Unprepared(f"{commit} is in no branch or tag of {self._url}: {_SAY_WHICH}")
        if not self._has(commit):
            raise Unprepared(f"{self._url} has no commit {commit}")

    def _fetch_alone(self, commit: str) -> None:
        target = f"+{commit}:refs/stayer/{commit}"
        with self._alone():
            try:
                self._run_here("fetch", "--no-tags", "--depth=1", "--", self._url, target)
            except Unprepared as error:
                if error.passing:
                    raise

    def _fetch_all(self) -> None:
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        with self._alone():
            is_cut = os.path.exists(os.path.join(self._path, "shallow"))
            history = ("--unshallow",) if is_cut else ()
            self._run_here("fetch", "--no-tags", *history, "--", self._url, *refs)

    def _is_newest(self, commit: str) -> bool:
        """Return whether a branch or a tag is just at this commit."""
        listed = self._run("ls-remote", "--heads", "--tags", "--", self._url)
        return commit in {line.partition("\t")[0] for line in listed.splitlines()}

    def _is_named(self, commit: str) -> bool:
        """Return whether it is in the history of a branch or a tag, as far as that is here."""
        words = ("for-each-ref", "--count=1", "--contains", commit, *_NAMED)
        try:
            return bool(self._run_here(*words).strip())
        except Unprepared:  # it is not even here
            return False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Use a copy that nobody else changes meanwhile. Whoever changes one and stands still,
        because its worker has lost its lease, keeps nobody waiting: others use the next one.
        """
        lock = self._lock_copy()
        try:
            with self._programs.under(lock):
                self._mend()
                yield
        finally:
            lock.close()

    def _lock_copy(self) -> Lock:
        while True:
            for path in self._copies:
                lock = Lock(path)
                if lock.take(fcntl.LOCK_EX):
                    self._path = path
                    return lock
                stands_still = lock.stands_still()
                lock.close()
                if not stands_still:
                    break
            self._programs.check_time()
            time.sleep(POLL_S)

    def _mend(self) -> None:
        """Make the copy if it is not there. What a git that was killed has left must not keep
        others from it: nobody else is at it now.
        """
        if not os.path.isdir(self._path):
            new = f"{self._path}.new"
            remove_tree(new)
            self._run("init", "--quiet", "--bare", "--", new)
            os.rename(new, self._path)
        for folder, folders, files in os.walk(self._path):
            if folder == self._path and "objects" in folders:
                folders.remove("objects")  # many, and none of their locks is waited for
            for name in files:
                if name.endswith(".lock"):
                    os.unlink(os.path.join(folder, name))

    def _run_here(self, *words: str, index: str | None = None, cwd: str = "/") -> str:
        more = {} if index is None else {"GIT_INDEX_FILE": index}
        return self._run(f"--git-dir={self._path}", *words, cwd=cwd, **more)

    def _run(self, *words: str, cwd: str = "/", **variables: str) -> str:
        return self._programs.run([self._git, *_SAFE, *words], cwd=cwd, variables=variables)
