"""Writes `llms.txt` into the site, the map of its pages for language models (see llmstxt.org): the
title and the first sentence of each page, in the order of the site. mkdocs calls it as a hook.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
HEAD = """\
# Stayer

> A job queue for work that takes minutes, hours or days, in Python: tasks outlive their worker,
> never run in two places at once, and go on from their last checkpoint. Stores: SQLite,
> PostgreSQL, MySQL, Redis.

Submit commands with `stayer add -- COMMAND`, functions with `@app.task` and `.submit(…)`, anything
over HTTP. `stayer explain ID` says why a task waits. Every command has `--json`.
"""
KINDS = {
    "tutorial": "Tutorial",
    "how-to": "How-to guides",
    "reference": "Reference",
    "explanation": "Explanation",
}


def describe(page: Path) -> str:
    """A line for one page."""
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    if title is None:
        raise SystemExit(f"{page} has no title")
    paragraphs = re.split(r"\n\s*\n", text[title.end() :].strip())
    plain = next((each for each in paragraphs if each[0].isalnum() or each[0] in "`*["), "")
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(plain.split()))
    sentence = re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")
    link = page.relative_to(DOCS).as_posix()
    return f"- [{title[1].replace('`', '')}]({link})" + (f": {sentence}" if sentence else "")


def pages(kind: str) -> list[Path]:
    """The pages of a folder, as the site orders them, then what it does not name."""
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    found = {page.relative_to(DOCS).as_posix(): page for page in (DOCS / kind).rglob("*.md")}
    ordered = [name for name in re.findall(r"[\w/.-]+\.md", nav) if name in found]
    return [found[name] for name in dict.fromkeys([*ordered, *sorted(found)])]


def draw() -> str:
    """The whole file."""
    sections = [
        f"## {title}\n\n" + "\n".join(map(describe, pages(kind))) for kind, title in KINDS.items()
    ]
    return "\n".join([HEAD, "\n\n".join(sections), ""])


def on_post_build(config: Any) -> None:
    """Called by mkdocs when the site is made."""
    Path(config["site_dir"], "llms.txt").write_text(draw(), encoding="utf-8")
