"""Every page can be found."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.docs.pages import DOCS, ROOT, hook, text

KINDS = {
    "how-to": "how-to/index.md",
    "reference": "reference/index.md",
    "explanation": "explanation/index.md",
    "decisions": "decisions/README.md",
}
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_links_to_all_pages_of_its_kind(kind: str) -> None:
    linked = {*re.findall(r"\]\(([\w-]+\.md)\)", text(KINDS[kind]))}
    assert linked == {path.name for path in (DOCS / kind).glob("*.md")} - {"index.md", "README.md"}


@pytest.mark.parametrize("page", [*PAGES, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md"])
def test_what_a_page_links_to_is_there(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]+\.(?:md|svg))(#[\w-]+)?\)", text(page)):
        found = (DOCS / page).parent / target
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor.removeprefix("#") in {
                re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
                for heading in headings
            }


def test_no_page_of_the_site_links_to_what_is_not_on_it() -> None:
    links = hook("source_links")
    for page in PAGES:
        published = links.on_page_markdown(text(page))
        for target in re.findall(r"\]\((\.\./[\w./-]+)", published):
            assert ((DOCS / page).parent / target).resolve().is_relative_to(DOCS), (page, target)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_no_command_that_is_not_there(page: str) -> None:
    from stayer.cli.main import cli

    known = {*cli.list_commands(None)}  # type: ignore[arg-type]
    named = {*re.findall(r"(?:`|^\$ )stayer ([a-z]+)\b", text(page), re.MULTILINE)}
    assert named <= known, named - known


def test_what_makes_pages_is_not_published() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "exclude_docs: |\n  *.py\n" in settings
    tracked = subprocess.run(
        ["git", "ls-files", "site"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert tracked.stdout == ""
