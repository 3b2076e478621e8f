"""The git commit of the folder that a command is submitted from.

Git is asked for a moment only, and whatever goes wrong there is no reason not to submit.
"""

from __future__ import annotations

import os
import shutil
import subprocess

_PATIENCE_S = 0.3
"""How long git may take: in a very large checkout it is not known whether something is changed."""
DIRTY, UNKNOWN = "-dirty", "-unchecked"


def commit_of(place: str | None) -> str | None:
    """Return the commit that is checked out there (None: here), with `-dirty` behind if a file
    that git knows was changed since; None outside of a checkout, and if git can't say.
    """
    try:
        folder = os.path.abspath(place or os.getcwd())
    except OSError:  # this directory is gone
        return None
    if not _is_in_checkout(folder) or (git := shutil.which("git")) is None:
        return None
    try:
        commit = _ask(git, folder, "rev-parse", "--verify", "--quiet", "HEAD").strip()
    except (OSError, subprocess.SubprocessError):
        return None
    try:
        if _has_filters(git, folder):
            return commit + UNKNOWN
        changes = _ask(
            git, folder, "status", "--porcelain", "--untracked-files=no",
            "--ignore-submodules=dirty",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return commit + UNKNOWN
    return commit + DIRTY if changes else commit


def _is_in_checkout(folder: str) -> bool:
    """Look for a `.git` above, which is quicker than to ask git where there is none."""
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _has_filters(git: str, folder: str) -> bool:
    """Tell whether the checkout's own settings name filters: to see whether a file was changed, git
    would run them.
    """
    found = _ask(
        git, folder, "config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.", fails=1
    )
    return any(not line.startswith(("system\t", "global\t")) for line in found.splitlines())


def _ask(git: str, folder: str, *words: str, fails: int = 0) -> str:
    """Return what git answers; `fails` is the exit code with which it says that there is nothing.
    Nothing that the checkout's own settings name is run, nothing is fetched, and nothing written.
    """
    safe = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
            "-c", "status.submoduleSummary=false")  # fmt: skip
    alone = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    done = subprocess.run(
        [git, *safe, *words], cwd=folder, check=False, timeout=_PATIENCE_S, capture_output=True,
        stdin=subprocess.DEVNULL, text=True, errors="replace", env={**os.environ, **alone},
    )  # fmt: skip
    if done.returncode not in (0, fails):
        raise subprocess.CalledProcessError(done.returncode, git)
    return done.stdout
