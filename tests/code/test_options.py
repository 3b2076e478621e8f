"""Which code a task needs, as the command line says it, and as a script says it in its header."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.core.model import Filter
from stayer.store import Store
from tests.cli.running import Here
from tests.code.conftest import GitRepository
from tests.code.index import Index, digest

HEADER = """\
#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "numpy>=2",
#   "rich",
# ]
# ///
import numpy
"""


def test_options_say_what_a_command_needs(stayer: Here, store: Store, folder: Path) -> None:
    (folder / "needs.txt").write_text("pandas  # frames\nscipy==1.14 \\\n  --hash=sha256:ab12\n")

    id = stayer("add", "--with", "numpy", "--requirements", "needs.txt", "--python", "3.12",
                "--", "python", "train.py").works().out.strip()  # fmt: skip

    [task] = store.get([id])
    assert task is not None
    assert task.code is not None
    assert task.code.requirements == ("numpy", "pandas", "scipy==1.14 --hash=sha256:ab12")
    assert (task.code.python, task.code.git) == ("3.12", None)
    assert task.cwd == str(folder)


def test_a_command_from_a_repository_runs_in_its_checkout(stayer: Here, store: Store) -> None:
    git = "https://example.org/acme/train@v1#jobs"

    id = stayer("add", "--git", git, "--", "python", "train.py").works().out.strip()

    [task] = store.get([id])
    assert task is not None
    assert task.code is not None
    assert task.code.git == git
    assert task.cwd is None


def test_the_header_of_a_script_says_what_it_needs(
    stayer: Here, store: Store, folder: Path
) -> None:
    (folder / "train.py").write_text(HEADER)

    id = stayer("add", "train.py", "--fast").works().out.strip()

    [task] = store.get([id])
    assert task is not None
    assert task.command == ("python", "train.py", "--fast")
    assert task.code is not None
    assert (task.code.requirements, task.code.python) == (("numpy>=2", "rich"), ">=3.11")


def test_a_script_without_a_header_is_noted_as_no_program(stayer: Here, folder: Path) -> None:
    script = folder / "plain.py"
    script.write_text("#!/usr/bin/env python3\n")
    said = "./plain.py can't be run by itself: write python ./plain.py"
    stayer("add", "--", "./plain.py").works(said)
    stayer("add", "--", "plain.py", "-v").works("write python plain.py")
    stayer("add", "--", "python", "plain.py").works()

    script.chmod(0o755)
    stayer("add", "--", "./plain.py").works()


def test_a_header_that_is_wrong_is_said(stayer: Here, folder: Path) -> None:
    (folder / "train.py").write_text("# /// script\n# dependencies = [\n# ///\n")

    stayer("add", "train.py").refuses("train.py", "can't be read")


def test_a_header_that_takes_a_package_from_elsewhere_is_refused(
    stayer: Here, folder: Path
) -> None:
    """By its name alone, somebody else's package of that name might be installed."""
    sources = '# [tool.uv.sources]\n# ours = { git = "https://host/ours" }\n'
    header = '# /// script\n# dependencies = ["ours"]\n'
    (folder / "train.py").write_text(f"{header}{sources}# ///\n")
    stayer("add", "train.py").refuses("train.py", "[tool.uv.sources] is not used")

    newer = '# [tool.uv]\n# exclude-newer = "2026-01-01T00:00:00Z"\n'
    (folder / "train.py").write_text(f"{header}{newer}# ///\n")
    stayer("add", "train.py").works("tool.uv.exclude-newer")


def test_what_is_asked_for_is_shown_with_the_task(stayer: Here) -> None:
    id = stayer("add", "--with", "numpy>=2", "--", "true").works().out.strip()

    assert "numpy>=2" in stayer("show", id).works().out
    shown = stayer("show", "--json", id).works().json
    assert shown["code"] == {
        "requirements": ["numpy>=2"], "python": None, "git": None, "files": [], "image": None
    }  # fmt: skip
    assert shown["pinned"] is None


def test_an_option_for_one_task_is_not_for_lines(stayer: Here) -> None:
    stayer("add", "--with", "numpy", "--jsonl", "-").refuses("--with", "for one task")


def test_a_task_that_is_there_gets_other_code(stayer: Here, store: Store, folder: Path) -> None:
    (folder / "train.py").write_text(HEADER)
    id = stayer("add", "--git", "https://example.org/a@v1", "--", "python", "x.py").out.strip()

    stayer("edit", id, "--with", "numpy", "--python", "3.12").works()
    assert stayer("show", "--json", id).json["code"] == {
        "requirements": ["numpy"], "python": "3.12", "git": None, "files": [], "image": None
    }  # fmt: skip
    assert '"numpy"' in stayer("show", id).works().out
    clone = stayer("clone", id, "--", "train.py").works().out.strip()
    [task] = store.get([clone])
    assert task is not None
    assert task.command == ("python", "train.py")
    assert task.code is not None
    assert task.code.requirements == ("numpy>=2", "rich")

    stayer("cancel", "-y", id, clone).works()
    stayer("retry", id, "--clear", "code", "--priority", "3").works()
    stayer("retry", clone, "--code", "latest", "--with", "rich").works()
    [plain, latest] = store.get([id, clone])
    assert plain is not None
    assert latest is not None
    assert (plain.code, plain.priority) == (None, 3)
    assert latest.code is not None
    assert latest.code.requirements == ("rich",)
    assert latest.pinned is not None
    assert latest.pinned.anew


def test_what_it_means_can_be_found_out_at_submission(
    stayer: Here, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(folder / "index")
    wheel = index.add("greet", "1.0")
    repository = GitRepository(folder / "repository")
    commit = repository.commit(train="")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(folder / "uv"))

    id = stayer("add", "--resolve", "--with", "greet", "--git", f"{repository.url}@main",
                "--", "python", "train.py").out.strip()  # fmt: skip

    [task] = store.get([id])
    assert task is not None
    assert task.code is not None
    assert task.code.requirements == (f"greet==1.0 --hash=sha256:{digest(wheel)}",)
    assert task.code.git == f"{repository.url}@{commit}"


def test_what_cant_be_resolved_is_not_submitted(
    stayer: Here, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", Index(folder / "index").url)
    monkeypatch.setenv("UV_CACHE_DIR", str(folder / "uv"))

    refused = stayer("add", "--resolve", "--with", "nosuch", "--", "true")

    assert refused.code == 2
    assert "nosuch was not found" in refused.err
    assert not store.find(Filter(), None, 9).tasks
