"""The code that a task needs: what its submitter asks for, and what that became when it was pinned.

`check` says what may be asked for at all; which of it a worker installs is for that worker to say
(`--allow-code`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core.decoding import convert
from stayer.core.errors import BadInput, TooLarge
from stayer.core.images import check_image
from stayer.core.limits import check_count, check_length, quote
from stayer.core.model import Code, SentFile, Task
from stayer.core.patterns import ANYTHING, any_matches, is_literal, matches_place

TEXT_LIMIT, LINES_LIMIT, LINE_LIMIT = 64_000, 2000, 1000
"""How long the requirements may be, how many there may be, and how long one is without hashes."""
URL_LIMIT = 2000
FILE_LIMIT, FILES_LIMIT, FILES_BYTES = 16_000_000, 100, 64_000_000
"""How many bytes a file that is sent along may have, how many there may be, and how many bytes
they may have together.
"""
_NAME_BYTES = 255
"""How long the name of a file may be, as the kernel has it."""
SCHEMES = ("https", "http", "ssh", "file")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9_.*+!-]+"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[[\w\s.,-]*\])?\s*"
    rf"(?:\(?\s*{_VERSION}(?:\s*,\s*{_VERSION})*\s*\)?)?\s*"
    r"(?:;[\w\s.'\"()<>=!~+*,-]*)?"
)
_EXACT = re.compile(rf"{_NAME}\s*(?:\[[^\]]*\])?\s*==\s*[A-Za-z0-9_.+!-]+\s*(?:;.*)?")
_HASH = re.compile(r"\s--hash=sha(?:256|384|512):[0-9a-f]+")
_PYTHON = re.compile(rf"\d+(?:\.\d+){{0,2}}|{_VERSION}(?:\s*,\s*{_VERSION})*")
_GIT = re.compile(
    r"(?P<url>(?P<scheme>[a-z+]+)://(?P<host>[^/@#\s]*@?[^/@#\s]*)/(?P<path>[^@#\s]+))"
    r"(?:@(?P<ref>[^#\s]+))?(?:#(?:subdirectory=)?(?P<folder>\S+))?"
)
_HOST = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{1,5})?", re.ASCII)
_USER = re.compile(r"[\w.+~-]*", re.ASCII)
_HIDDEN = re.compile(r"%(?:2[ef5]|5c)|\\", re.IGNORECASE)
"""What git, or the server of a repository, takes for a dot or a slash: no pattern would see it."""
_REF = re.compile(r"[\w][\w./+-]*", re.ASCII)
_FOLDER = re.compile(r"[\w.][\w./+ -]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Repository(Struct, frozen=True):
    """A folder in a git repository at some point of its history."""

    url: str
    ref: str = "HEAD"
    folder: str = ""


def lines_of(requirements: Iterable[str]) -> tuple[str, ...]:
    """Split requirements into one a line: without comments, and with their hashes behind."""
    text = requirements if isinstance(requirements, str) else "\n".join(requirements)
    joined = re.sub(r"\\\s*\n", " ", text)
    found = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
    return tuple(re.sub(r"\s+", " ", line) for line in found if line)


def check(what: str, asked: Any) -> Code | None:
    """Check the code that somebody asks for, and return it in its one form; None for nothing."""
    if isinstance(asked, dict):
        try:
            asked = convert(asked, Code)
        except msgspec.ValidationError as error:
            raise BadInput(f"{what}: {error}") from None
    if not isinstance(asked, Code):
        raise BadInput(f"{what} {quote(asked)}: give a stayer.Code, such as Code('numpy')")
    lines = _checked_lines(asked.requirements)
    if asked.python is not None:
        _check_python(asked.python)
    if asked.git is not None:
        repository(asked.git)
    if asked.image is not None:
        check_image(asked.image)
        if lines or asked.python is not None or asked.git is not None:
            raise BadInput(
                f"{what}: an image brings all that is installed: leave out requirements, python "
                "and git, or the image"
            )
    files = _checked_files(asked.files)
    found = Code(lines, asked.python, asked.git, files, asked.image)
    return found if prepares(found) or files else None


def installs(code: Code | None) -> bool:
    """Return whether something is to be installed: files that come along need nothing."""
    return code is not None and bool(code.requirements or code.python or code.git)


def prepares(code: Code | None) -> bool:
    """Return whether something is to be had before the task runs: installed, or an image."""
    return installs(code) or (code is not None and code.image is not None)


def has_pin(task: Task) -> bool:
    """Return whether it was found out what its code is, and nobody wants that anew."""
    return task.pinned is not None and not task.pinned.anew


def in_force(task: Task, default: Code | None) -> Code | None:
    """Return what is to be had before the task runs: what it asks for; else what an earlier attempt
    was pinned to by the default of its worker; else this default of a worker.
    """
    if prepares(task.code):
        return task.code
    if task.pinned is None or task.pinned.anew:
        return default
    git = None
    if task.pinned.git is not None:
        url, sharp, folder = task.pinned.git.partition("#")
        git = f"{url}@{task.pinned.commit}{sharp}{folder}"
    return Code(lines_of(task.lock or ""), task.pinned.python, git)


def _checked_files(files: object) -> tuple[SentFile, ...]:
    if not isinstance(files, tuple | list) or not all(isinstance(each, SentFile) for each in files):
        raise BadInput(f"files {quote(files)}: give what sending a file answers, in a list")
    check_count("files", files, FILES_LIMIT)
    for each in files:
        check_file_name(each.name)
        check_sha256(each.sha256)
        if type(each.size) is not int or not 0 <= each.size <= FILE_LIMIT:
            raise TooLarge(f"file {each.name}: at most {FILE_LIMIT:,} bytes can be sent")
    if sum(each.size for each in files) > FILES_BYTES:
        raise TooLarge(f"files: at most {FILES_BYTES:,} bytes can be sent with a task")
    check_clashes(each.name for each in files)
    return tuple(files)


def check_clashes(given: Iterable[str]) -> None:
    """BadInput if files with these names can't be in one folder."""
    listed = list(given)
    names = set(listed)
    if len(names) < len(listed):
        raise BadInput("files: two of them have the same name: send them under different ones")
    folders = {name[:place] for name in names for place, c in enumerate(name) if c == "/"}
    if clash := names & folders:
        raise BadInput(f"files: {min(clash)} is a file and a folder: send one under another name")


def check_file_name(name: str) -> str:
    """Return the path that a task is to find a file under; BadInput if it leads elsewhere."""
    check_length("the name of a file", name)
    parts = name.split("/")
    if not name.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise BadInput(f"file {quote(name)}: write a name, or a path without .. below a folder")
    if any(len(part.encode()) > _NAME_BYTES for part in parts):
        raise BadInput(
            f"file {quote(name)}: a name may have {_NAME_BYTES} bytes on disks: send it under a "
            "shorter one"
        )
    return name


def check_sha256(digest: str) -> str:
    """Return it; BadInput if it is none."""
    if not _SHA256.fullmatch(digest):
        raise BadInput(f"sha256 {quote(digest)}: write 64 hexadecimal digits, in small letters")
    return digest


def _checked_lines(requirements: object) -> tuple[str, ...]:
    if not isinstance(requirements, str | tuple | list) or not all(
        isinstance(each, str) for each in requirements
    ):
        raise BadInput(f"requirements {quote(requirements)}: give lines of text")
    if sum(map(len, requirements)) > TEXT_LIMIT:
        raise TooLarge(f"requirements: at most {TEXT_LIMIT:,} characters fit")
    lines = lines_of(requirements)
    check_count("requirements", lines, LINES_LIMIT)
    for line in lines:
        requirement_name(line)
    return lines


def requirement_name(line: str) -> str:
    """Return the project that a requirement names, as indexes spell it; BadInput if it is none."""
    plain = _HASH.sub("", line).strip()
    check_length("requirement", plain, LINE_LIMIT)
    if plain.startswith("-") or "--" in plain:
        raise BadInput(
            f"requirement {quote(line)}: options are not for a task to say: indexes and how to "
            "install are the worker's own settings. Leave it out"
        )
    if "://" in plain.partition(";")[0] or "@" in plain.partition(";")[0]:
        raise BadInput(
            f"requirement {quote(line)}: give a name and a version, not an address: a repository "
            "goes into `git` (--git URL@REF)"
        )
    found = _REQUIREMENT.fullmatch(plain)
    if found is None:
        raise BadInput(f"requirement {quote(line)}: write a name and a version, as in numpy>=2")
    return normalize_name(found["name"])


def normalize_name(name: str) -> str:
    """Return the name of a project as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_lock(lines: Iterable[str]) -> bool:
    """Return whether each has an exact version and hashes, so that nothing is left to resolve."""
    found = [bool(_HASH.search(line) and _EXACT.fullmatch(_HASH.sub("", line))) for line in lines]
    return bool(found) and all(found)


def _check_python(python: str) -> None:
    check_length("python", python)
    if not _PYTHON.fullmatch(python):
        raise BadInput(f"python {quote(python)}: give a version, as in 3.12, or a range: >=3.11")


def repository(git: str) -> Repository:
    """Read `URL[@REF][#FOLDER]`; BadInput if it could mean something else to git."""
    check_length("git", git, URL_LIMIT)
    hint = "write https://HOST/PATH[@REF][#FOLDER], or ssh://git@HOST/PATH"
    found = _GIT.fullmatch(git)
    if found is None or git.startswith("-"):
        raise BadInput(f"git {quote(git)}: {hint}")
    if found["scheme"] not in SCHEMES:
        raise BadInput(f"git {quote(git)}: {found['scheme']} is not taken: {hint}")
    user, at, host = found["host"].rpartition("@")
    if at and (found["scheme"] != "ssh" or ":" in user):
        raise BadInput(
            "git: an address with a user name or password in it is not taken, because tasks can be "
            "read by others: give the worker the credentials, and leave them out here"
        )
    if host.startswith("-") or user.startswith("-") or (not host and found["scheme"] != "file"):
        raise BadInput(f"git {quote(git)}: {hint}")
    if ".." in found["path"].split("/") or not found["url"].isprintable():
        raise BadInput(f"git {quote(git)}: write its path without ..")
    if "%" in found["host"] or _HIDDEN.search(found["path"]):
        raise BadInput(
            f"git {quote(git)}: write the host and all dots and slashes as they are, without %"
        )
    if not _HOST.fullmatch(host) or not _USER.fullmatch(user):
        raise BadInput(f"git {quote(git)}: {quote(host)} is no name of a host: {hint}")
    ref, folder = found["ref"] or "HEAD", (found["folder"] or "").strip("/")
    if not _REF.fullmatch(ref) or ".." in ref:
        raise BadInput(f"git {quote(git)}: {quote(ref)} is no branch, tag or commit")
    if folder and (not _FOLDER.fullmatch(folder) or ".." in folder.split("/")):
        raise BadInput(f"git {quote(git)}: {quote(folder)} is no folder in a repository")
    return Repository(found["url"], ref, folder)


def not_allowed(names: Iterable[str], git: str | None, patterns: tuple[str, ...]) -> Iterator[str]:
    """List what no pattern of an allow-list names. `*` stands for every package, and for every
    repository that is not a folder of the worker's own machine.
    """
    packages = tuple(pattern for pattern in patterns if "://" not in pattern)
    yield from (name for name in names if not any_matches(name, packages))
    if git is None:
        return
    is_named = any(_is_place_of(git, pattern) for pattern in patterns if "://" in pattern)
    is_local = git.startswith("file:")
    if not is_named and (is_local or ANYTHING not in patterns):
        yield git


def _is_place_of(git: str, pattern: str) -> bool:
    scheme, _, place = git.partition("://")
    wanted_scheme, _, wanted_place = pattern.partition("://")
    return scheme == wanted_scheme and matches_place(place, wanted_place)


def check_pattern(pattern: str) -> str:
    """Return an entry of an allow-list in its one form; BadInput if it can't be one."""
    if "://" in pattern:
        if not pattern.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
            raise BadInput(f"{pattern}: write https://HOST/PATH, ssh://… or file:///…")
        if "/" not in pattern.partition("://")[2]:
            raise BadInput(f"{pattern}: say where the host ends, as in https://HOST/*")
        return pattern
    if not pattern or "/" in pattern or " " in pattern:
        raise BadInput(
            f"{pattern!r}: give the name of a package (numpy, acme-*), the address of repositories "
            "(https://HOST/acme/*), or *"
        )
    return normalize_name(pattern) if is_literal(pattern) else pattern.lower()
