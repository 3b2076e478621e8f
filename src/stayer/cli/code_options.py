"""The options that say which code a task needs, and what a script says of that in its header."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rich_click as click

from stayer.cli.command import Decorated
from stayer.cli.output import note
from stayer.core.code import check
from stayer.core.errors import BadInput
from stayer.core.model import Code
from stayer.service import sent_files
from stayer.store import Store

_READ_LIMIT = 1_000_000
_HEADER = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$")
_OPTIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--with", "with_"): {
        "multiple": True,
        "metavar": "PACKAGE",
        "help": "Install this package for it: numpy, 'numpy>=2' … May be repeated.",
    },
    ("--requirements",): {
        "metavar": "FILE",
        "help": "Install the packages in this file: requirements, or a lock with hashes.",
    },
    ("--python",): {
        "metavar": "VERSION",
        "help": "Run it with this Python: 3.12, '>=3.11' …",
    },
    ("--git",): {
        "metavar": "URL[@REF][#FOLDER]",
        "help": "Run it in a checkout of this repository, and install what that needs.",
    },
    ("--image",): {
        "metavar": "NAME",
        "help": "Run it in a container of this image, such as python:3.12.",
    },
    ("--send",): {
        "multiple": True,
        "metavar": "FILE",
        "help": "Send this file with it. The command runs in a new folder that has the file, "
        "unless --cwd or --git is given. May be repeated.",
    },
    ("--resolve",): {
        "is_flag": True,
        "help": "Pin versions and commit now, with the uv and git of this machine. Without it, the "
        "first attempt does.",
    },
}


def code_options(panel: str) -> Callable[[Decorated], Decorated]:
    """Add them, in this group of the help; the function is given them by their names."""

    def decorate(function: Decorated) -> Decorated:
        for names, more in reversed(_OPTIONS.items()):
            function = click.option(*names, panel=panel, **more)(function)
        return function

    return decorate


def asked_code(
    words: Sequence[str], options: Mapping[str, Any], store: Callable[[], Store]
) -> tuple[Code | None, tuple[str, ...]]:
    """Return the code that a task needs by these options, or by the header of the script that its
    words name (then they begin with `python`); and its words. Files are sent to the store.

    A script with a header brings all that it needs, so it is sent along, too, unless the store is
    a file: then its workers are on this machine.
    """
    lines = list(options.get("with_") or ())
    if (file := options.get("requirements")) is not None:
        lines.append(_read(file, "--requirements"))
    python, git = options.get("python"), options.get("git")
    image = options.get("image")
    header = None if git or image else _header_of(words, options.get("cwd"))
    sent = list(options.get("send") or ())
    if header is not None:
        if options.get("cwd") is None and store().path is None and words[0] not in sent:
            sent.append(words[0])
        if words[0] in sent and options.get("cwd") is None:
            words = (sent_files.sent_name(words[0]), *words[1:])
        words = ("python", *words)
        lines = [*header[0], *lines]
        python = python or header[1]
    if header is None and not (lines or sent or python or git or image):
        return None, tuple(words)
    files = tuple(sent_files.send(store(), path) for path in dict.fromkeys(sent))
    code = Code("\n".join(lines), python, git, files, image)
    if options.get("resolve"):
        from stayer.client.resolve_code import resolve_code

        code = resolve_code(code)
    return code, tuple(words)


def default_code(settings: dict[str, Any]) -> Code | None:
    """Take out of the settings of a worker what its tasks run with that ask for no code."""
    lines = list(settings.pop("with", ()))
    if (file := settings.pop("requirements", None)) is not None:
        lines.append(_read(file, "--requirements"))
    asked = Code("\n".join(lines), settings.pop("python", None), settings.pop("git", None))
    return check("the code of tasks that ask for none", asked)


def _header_of(words: Sequence[str], cwd: str | None) -> tuple[list[str], str | None] | None:
    """Read from the header of a script (PEP 723) the packages and the Python that it needs."""
    if not words or not words[0].endswith(".py"):
        return None
    path = os.path.join(cwd or "", words[0])
    if not os.path.isfile(path):
        return None
    found = [
        each for each in _HEADER.finditer(_read(path, "the script")) if each["type"] == "script"
    ]
    if not found:
        return None
    if len(found) > 1:
        raise BadInput(f"{path} has {len(found)} headers `# /// script`: leave one")
    text = "".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in found[0]["content"].splitlines(keepends=True)
    )
    try:
        header = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"the header `# /// script` of {path} can't be read: {error}") from None
    needs, python = header.get("dependencies", []), header.get("requires-python")
    if not isinstance(needs, list) or not all(isinstance(each, str) for each in needs):
        raise BadInput(f"the header of {path}: dependencies is to be a list of texts")
    if python is not None and not isinstance(python, str):
        raise BadInput(f"the header of {path}: requires-python is to be a text")
    _mind_settings_of_uv(path, header.get("tool"))
    return needs, python


def _mind_settings_of_uv(path: str, tool: object) -> None:
    """Refuse what would have a package come from elsewhere: by its name alone, another one of that
    name might be installed. Say what else is not used.
    """
    uv = tool.get("uv") if isinstance(tool, dict) else None
    if not isinstance(uv, dict):
        return
    if uv.get("sources"):
        raise BadInput(
            f"the header of {path}: [tool.uv.sources] is not used, and without it another package "
            "of that name might be installed: run it in its repository with --git, or leave it out"
        )
    if uv:
        note(
            f"not used in the header of {path}: {', '.join(f'tool.uv.{name}' for name in uv)}. "
            "Indexes and how to install are the worker's own settings"
        )


def _read(path: str, what: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_READ_LIMIT + 1)
        if len(data) > _READ_LIMIT:
            raise BadInput(f"{what}: {path} is too long, at most {_READ_LIMIT:,} bytes are read")
        return data.decode().replace("\r\n", "\n")
    except OSError as error:
        raise BadInput(f"{what}: {path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{what}: {path} is not UTF-8 text") from None
