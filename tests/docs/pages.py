"""The pages of the documentation, and the blocks of code on them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from msgspec import Struct

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PATIENCE = 60.0
"""A cap for waits that only a defect reaches."""

_BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


class Block(Struct, frozen=True):
    """Some code of a page."""

    language: str
    title: str
    code: str


class Step(Struct, frozen=True):
    """A command of a console block, and what the page says that it prints."""

    command: str
    output: str


def text(page: str) -> str:
    """A page."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [Block(*found) for found in _BLOCK.findall(text(page))]


def steps(block: Block) -> list[Step]:
    """What is typed into a console; `^C` is a command, too."""
    commands: list[str] = []
    outputs: list[str] = []
    for line in block.code.splitlines():
        if line.startswith("$ ") or line == "^C":
            commands.append(line.removeprefix("$ "))
            outputs.append("")
        elif commands and outputs[-1] == "" and commands[-1].count('"') % 2:
            commands[-1] += "\n" + line
        else:
            outputs[-1] += line + "\n"
    return [Step(*pair) for pair in zip(commands, outputs, strict=True)]


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its rank."""
    level = heading.partition(" ")[0]
    _, found, rest = text(page).partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def hook(name: str) -> ModuleType:
    """A module beside the pages, which MkDocs calls when it makes the site."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
