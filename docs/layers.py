"""Writes the map of the layers into CONTRIBUTING.md and the page on the architecture, from the
import linter's table in pyproject.toml and the first sentence of each package.

`python docs/layers.py` writes it, `--check` only says whether it is up to date.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "explanation" / "architecture.md")
BEGIN, END = "<!-- Made by docs/layers.py. -->", "<!-- End of what docs/layers.py made. -->"


def layers() -> list[list[str]]:
    """The names in each row, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    [rows] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    return [re.findall(r"\w+", row) for row in rows]


def purpose(name: str) -> str:
    """The first sentence of a module or package; of the page, which is no Python, its own."""
    base = ROOT / "src" / "stayer" / name
    if name == "ui":
        return "The web page: plain modules for the browser, without a build step."
    source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text())) or ""
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]
    if not sentence:
        raise SystemExit(f"{source} has no docstring: say what is in it")
    return sentence


def draw() -> str:
    """The map as a table."""
    rows = ["| layer | what is in it |", "|---|---|"]
    for names in layers():
        shown = ", ".join(f"`{name}`" for name in names)
        said = " ".join(purpose(name) for name in names)
        rows.append(f"| {shown} | {said} |")
    return "\n".join(rows)


def with_map(page: str) -> str:
    """The page with the map as it is now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"a page lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{draw()}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with --check compare them."""
    if list(arguments) not in ([], ["--check"]):
        print("usage: python docs/layers.py [--check]", file=sys.stderr)
        return 2
    stale = [page for page in PAGES if with_map(page.read_text()) != page.read_text()]
    if arguments:
        for page in stale:
            print(f"{page} is not up to date: python docs/layers.py", file=sys.stderr)
        return bool(stale)
    for page in stale:
        page.write_text(with_map(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
