"""Resolving requirements, and building an environment of exact ones, both with uv."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from typing import Any

from . import cache
from .programs import Programs, Unprepared
from .repositories import Repository

FORMAT = 1
"""Part of every key: environments of another one are not used."""
_LOCK_LIMIT = 256_000
_PACKAGE = re.compile(
    r"\s*[A-Za-z0-9][\w.-]*\s*(\[[\w\s.,-]*\])?\s*([(<>=!~][^@/$]*)?(;[^@$]*)?$", re.ASCII
)
"""A name, and which versions: no address, path or variable, which uv would look into."""
_RANGE = re.compile(r"(==|>=|<=|>|<|!=)\s*(\d+(?:\.\d+)*)")
_COMPARED = {
    "==": lambda have, want: have[: len(want)] == want,
    "!=": lambda have, want: have[: len(want)] != want,
    ">=": lambda have, want: have >= want,
    "<=": lambda have, want: have[: len(want)] <= want,
    ">": lambda have, want: have[: len(want)] > want,
    "<": lambda have, want: have < want,
}

Spec = dict[str, Any]
"""What `code.json` says."""


class Builder:
    """What the task needs, and where it is made."""

    def __init__(self, spec: Spec, programs: Programs) -> None:
        self._spec = spec
        self._programs = programs
        self._uv: str = spec["uv"]
        self._folder: str = spec["folder"]
        git = spec.get("git")
        self._repository = (
            Repository(
                programs,
                spec["git_program"],
                os.path.join(self._folder, "git"),
                git["url"],
                any_commit="*" in spec["allow"],
            )
            if git
            else None
        )

    @property
    def envs(self) -> str:
        """Where environments are."""
        return os.path.join(self._folder, "envs")

    @property
    def scratch(self) -> str:
        """Where it works meanwhile."""
        return os.path.join(self._folder, "tmp")

    def resolve(self) -> Spec:
        """Find out exactly what is asked for: the version of Python, the commit, and the lock."""
        _, python = self._interpreter(self._spec.get("python"))
        commit, lines = None, list(self._spec["requirements"])
        with cache.scratch(self._scratch()) as (scratch, lock), self._programs.under(lock):
            if self._repository is not None:
                git = self._spec["git"]
                commit = self._repository.resolve(git["ref"])
                self._programs.say(f"stayer: {git['url']} {git['ref']} is commit {commit}\n")
                files = os.path.join(scratch, "files")
                self._repository.check_out(commit, files)
                lines += project_requirements(os.path.join(files, git["folder"]))
            is_lock = self._spec["is_lock"] and lines == self._spec["requirements"]
            text = "\n".join(lines) + "\n" if is_lock else self._compile(lines, python, scratch)
        if len(text) > _LOCK_LIMIT:
            raise Unprepared(f"the lock is {len(text):,} characters, at most {_LOCK_LIMIT:,} fit")
        digest = hashlib.sha256(text.encode()).hexdigest() if text else None
        return {"python": python, "commit": commit, "lock": digest, "text": text or None}

    def key(self, pinned: Spec) -> str:
        """Return what tells this environment from all others."""
        git = self._spec.get("git") or {}
        told = [
            FORMAT, pinned["python"], pinned["text"], git.get("url"), pinned["commit"],
            git.get("folder"),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def build(self, pinned: Spec, path: str, lock: cache.Lock) -> dict[str, object]:
        """Fill the folder; return what to remember of it."""
        with self._programs.under(lock):
            return self._build(pinned, path)

    def _build(self, pinned: Spec, path: str) -> dict[str, object]:
        text, git = pinned["text"], self._spec.get("git")
        if text and hashlib.sha256(text.encode()).hexdigest() != pinned["lock"]:
            raise Unprepared("the lock is not the one whose hash its task has: it was changed")
        interpreter, _ = self._interpreter(pinned["python"])
        venv = os.path.join(path, "venv")
        self._run_uv("venv", "--no-project", "--quiet", "--python", interpreter, venv)
        if text:
            locked = os.path.join(path, "lock.txt")
            with open(locked, "w") as file:
                file.write(text)
            python = os.path.join(venv, "bin", "python")
            # Copies: what a task does to its files must not reach those of others.
            self._run_uv(
                "pip",
                "sync",
                "--require-hashes",
                "--link-mode",
                "copy",
                "--python",
                python,
                *self._no_build(),
                locked,
            )
        if self._repository is not None and git:
            files = os.path.join(path, "files")
            self._repository.check_out(pinned["commit"], files)
            _import_from(venv, os.path.join(files, git["folder"]))
        return {
            "python": pinned["python"],
            "lock": pinned["lock"],
            "commit": pinned["commit"],
            "git": git["url"] if git else None,
            "requirements": list(self._spec["requirements"])[:100],
        }

    def _compile(self, lines: list[str], python: str, scratch: str) -> str:
        if not lines:
            return ""
        asked, made = (os.path.join(scratch, name) for name in ("requirements.in", "lock.txt"))
        with open(asked, "w") as file:
            file.write("\n".join(lines) + "\n")
        self._run_uv(
            "pip", "compile", "--universal", "--generate-hashes", "--no-annotate", "--no-header",
            "--quiet", "--python-version", python, *self._no_build(), "--output-file", made, asked,
        )  # fmt: skip
        with open(made) as file:
            return _one_a_line(file.read())

    def _no_build(self) -> tuple[str, ...]:
        """Unless all packages are allowed, nothing of a package runs that was not named: to build
        one takes others. Whoever started the worker has named what its default takes.
        """
        is_free = "*" in self._spec["allow"] or self._spec.get("is_default")
        return () if is_free else ("--no-build",)

    def _interpreter(self, asked: str | None) -> tuple[str, str]:
        """Find a Python that fits, the worker's own if that does; return its path and version."""
        own = ".".join(map(str, sys.version_info[:2]))
        if asked is None or _fits(asked):
            return self._spec["own_python"], own
        try:
            said = self._run_uv("python", "find", "--no-project", "--system", asked)
        except Unprepared as error:
            raise Unprepared(f"there is no Python {asked} on this machine: {error}") from None
        found = said.strip().splitlines()[-1]
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        version = self._programs.run([found, "-I", "-c", code], cwd="/").strip()
        return found, version

    def _run_uv(self, *words: str) -> str:
        return self._programs.run([self._uv, *words], cwd=self._scratch())

    def _scratch(self) -> str:
        """Make a folder without settings of anybody's, on the same disk as all the rest."""
        os.makedirs(self.scratch, mode=0o700, exist_ok=True)
        return self.scratch


def project_requirements(folder: str) -> list[str]:
    """Read what the project in this folder says that it needs: nothing of it is run to find
    out.
    """
    if not os.path.isdir(folder):
        raise Unprepared(f"the repository has no folder {os.path.basename(folder)}")
    import tomllib

    try:
        with open(os.path.join(folder, "pyproject.toml"), "rb") as file:
            found = tomllib.load(file).get("project", {}).get("dependencies", [])
    except FileNotFoundError:
        return []
    except (ValueError, AttributeError) as error:
        raise Unprepared(f"its pyproject.toml can't be read: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Unprepared("its pyproject.toml can't be read: dependencies are no list of texts")
    for line in found:
        if not _PACKAGE.match(line) or not line.isprintable():
            raise Unprepared(f"its pyproject.toml needs {line!r}: name a package and a version")
    return found


def _one_a_line(lock: str) -> str:
    """Put the hashes of a lock behind each requirement, as `core.code.lines_of` does: the same
    packages are the same text, whoever resolved them.
    """
    rows = re.sub(r"\\\s*\n", " ", lock).splitlines()
    found = (re.sub(r"\s+", " ", re.sub(r"(^|\s)#.*", "", row)).strip() for row in rows)
    return "".join(f"{row}\n" for row in found if row)


def _fits(asked: str) -> bool:
    """Return whether this process's Python is one that was asked for, where that is easy."""
    have = sys.version_info[:3]
    if re.fullmatch(r"\d+(\.\d+)*", asked):
        asked = f"=={asked}"
    parts = [each.strip() for each in asked.removesuffix(".*").split(",")]
    found = [_RANGE.fullmatch(part) for part in parts]
    return all(
        match and _COMPARED[match[1]](have, tuple(map(int, match[2].split(".")))) for match in found
    )


def _import_from(venv: str, folder: str) -> None:
    """Let modules of the checkout be imported, from its folder or from `src` in it."""
    lib = os.path.join(venv, "lib")
    [python] = [name for name in os.listdir(lib) if name.startswith("python")]
    places = [folder, *([inner] if os.path.isdir(inner := os.path.join(folder, "src")) else [])]
    with open(os.path.join(lib, python, "site-packages", "stayer-task-code.pth"), "w") as file:
        file.write("".join(f"{place}\n" for place in places))
