"""Which file a command means on this machine, and whether an allow-list names it.

The submitter chooses the word, the directory, and may make links. So a program is looked for in the
worker's own PATH, or taken from its path with the folder resolved; that path is matched, and that
path is executed. Only its last part may be a link, in a folder that the allow-list names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from stayer.core.errors import BadConfig
from stayer.core.patterns import ANYTHING, is_literal, literal, matches


class NotAllowed(Exception):
    """This worker may not run it; another may."""


class ProgramMissing(FileNotFoundError):
    """The program of a command is not on this machine."""


def check_pattern(pattern: str) -> None:
    """BadConfig if an allow-list can't have it."""
    if pattern == ANYTHING:
        raise BadConfig("--allow-command '*' would be any command: if so, say --allow-commands")
    if "/" not in pattern:
        return
    if not pattern.startswith("/"):
        raise BadConfig(
            f"--allow-command {pattern}: give the name of a program (ffmpeg), or its whole path "
            "(/opt/tools/*)"
        )
    if not os.path.basename(pattern) or {".", ".."} & set(pattern.split("/")):
        raise BadConfig(f"--allow-command {pattern}: give the path of a program, without . and ..")


def program_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the words of tasks that may mean a program that these allow, as patterns for the
    store. In the folder of a program somebody may call it by `./NAME`.
    """
    relative = (f"./{os.path.basename(each)}" for each in patterns if "/" in each)
    return (*patterns, *(each for each in relative if is_literal(each)))


def look_up(name: str, path: str) -> str:
    """Find a program in the folders of a PATH; raise Missing if it is in none of them. Missing if
    it is in none of them. Folders that are not absolute are left out: they would depend on where a
    task is to run.
    """
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if os.path.isabs(folder) and is_program(candidate):
            return candidate
    raise ProgramMissing(errno.ENOENT, os.strerror(errno.ENOENT), name)


def is_program(path: str) -> bool:
    """Return whether it is a file that this process may execute."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def resolve_program(word: str, patterns: Sequence[str], path: str, folder: str) -> tuple[str, str]:
    """Return what to execute for the first word of a command, and what to call it; raises
    NotAllowed, or Missing if it is allowed but not there.
    """
    try:
        if "/" in word:
            found = _resolve_path(word, patterns, folder)
            return found, found
        names = [pattern for pattern in patterns if "/" not in pattern]
        if not any(matches(word, pattern, as_path=True) for pattern in names):
            raise NotAllowed(f"no --allow-command names the program {_short(word)}")
        return look_up(word, path), word
    except ValueError:  # a NUL, or no UTF-8
        raise NotAllowed("its program can't be the name of a file") from None


def _resolve_path(word: str, patterns: Sequence[str], folder: str) -> str:
    if ".." in word.split("/"):
        raise NotAllowed(f"the path of its program, {_short(word)}, has .. in it")
    if not os.path.isabs(word):
        word = _find_named(folder, word, patterns)
    found = _resolve_folder(word)
    fitting = [each for each in patterns if "/" in each and _allows(each, found)]
    if not fitting:
        raise NotAllowed(f"no --allow-command names the program {_short(found)}")
    if not any(map(is_literal, fitting)):
        # A whole folder is allowed: what merely is linked there is somewhere else.
        target = os.path.realpath(found)
        if target != found and not any(_allows(each, target) for each in patterns if "/" in each):
            raise NotAllowed(
                f"the program {_short(found)} is a link to {_short(target)}, which no "
                "--allow-command names"
            )
    if not os.path.isfile(found):
        raise ProgramMissing(errno.ENOENT, os.strerror(errno.ENOENT), word)
    return found


def _find_named(folder: str, word: str, patterns: Sequence[str]) -> str:
    """Return the program that a pattern names and that somebody in this folder calls so. The folder
    itself is not looked at: it is the submitter's, and may be on a disk that does not answer.
    """
    path = os.path.normpath(os.path.join(folder, word))
    for pattern in patterns:
        if "/" in pattern and is_literal(pattern) and ".." not in folder.split("/"):
            resolved = _resolve_folder(pattern)
            if path in (os.path.normpath(pattern), resolved):
                return resolved
    raise NotAllowed(f"no --allow-command names the program {_short(path)}")


def _resolve_folder(path: str) -> str:
    head, tail = os.path.split(path)
    return os.path.join(os.path.realpath(head), tail)


def _allows(pattern: str, found: str) -> bool:
    """Return whether the pattern, with the folders that it names resolved, stands for the path."""
    if is_literal(pattern):
        return found == _resolve_folder(pattern)
    folders = pattern.split("/")
    plain = next(number for number, part in enumerate(folders) if not is_literal(part))
    fixed = os.path.realpath("/".join(folders[:plain]) or "/")
    resolved = "/".join([literal(fixed.rstrip("/")), *folders[plain:]])
    return matches(found, resolved, as_path=True)


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:199]}…")
