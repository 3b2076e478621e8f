"""The map of the pages for language models."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT, hook


def test_it_names_every_page_by_a_link_that_leads_there(tmp_path: Path) -> None:
    hook("llms_txt").on_post_build({"site_dir": str(tmp_path)})

    text = (tmp_path / "llms.txt").read_text()
    assert text.startswith("# Stayer\n\n> ")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    there = {
        page.relative_to(ROOT / "docs").as_posix()
        for kind in ("tutorial", "how-to", "reference", "explanation")
        for page in (ROOT / "docs" / kind).rglob("*.md")
    }
    assert sorted(links) == sorted(there)
    bare = [line for line in text.splitlines() if line.startswith("- ") and "): " not in line]
    assert len(bare) <= 2, bare
    assert "llms_txt.py" in (ROOT / "mkdocs.yml").read_text()
