"""The lock files in requirements/: what a release is installed with, checked by hashes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NEEDED = {
    "base": PROJECT["dependencies"],
    **{extra: PROJECT["dependencies"] + needs for extra, needs in EXTRAS.items()},
    "build": SETTINGS["build-system"]["requires"],
    "all": PROJECT["dependencies"] + [*chain(*EXTRAS.values())],
}
REMAKE = "Run `make lock`."


def test_there_is_one_for_each_extra() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(NEEDED), REMAKE


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_locked_is_within_the_ranges(name: str) -> None:
    locked = pins(name)
    for text in NEEDED[name]:
        needed = Requirement(text)
        assert needed.name in locked, f"{needed.name} is missing. {REMAKE}"
        version = locked[needed.name]
        assert needed.specifier.contains(version), f"{needed} does not allow {version}. {REMAKE}"


@pytest.mark.parametrize("name", NEEDED)
def test_everything_has_hashes_and_nothing_says_where_it_comes_from(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r"( {4}--hash=sha256:[0-9a-f]{64}|[^ :/@]+==[^:/@]+)( \\)?", line), line
    for pin, following in zip(lines, [*lines[1:], ""], strict=True):
        assert not pin[0].isalnum() or following.startswith("    --hash="), f"no hash of {pin}"


@pytest.mark.parametrize("name", ["base", *EXTRAS])
def test_all_files_name_the_same_versions(name: str) -> None:
    everything = pins("all")
    assert everything == everything | pins(name), f"They can't be installed together. {REMAKE}"


def pins(name: str) -> dict[str, str]:
    """The version of each package."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    named = [line.split(";")[0].rstrip("\\ ") for line in lines if "==" in line]
    return dict(line.split("==") for line in named)


@pytest.mark.long
@pytest.mark.parametrize("names", [["base"], ["redis", "web"], ["all"]], ids="+".join)
def test_it_is_all_that_an_empty_environment_needs(tmp_path: Path, names: list[str]) -> None:
    def run(*words: str | Path) -> None:
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    # Given an empty environment, and a release
    uv, program = ROOT / ".ci" / "uv", tmp_path / "env" / "bin"
    run(uv, "venv", "--seed", "--python", ROOT / ".venv" / "bin" / "python", "env")
    run(uv, "build", "--wheel", "--out-dir", "release", ROOT)
    [wheel] = (tmp_path / "release").glob("*.whl")

    # When it is given what the files name
    files: list[str | Path] = []
    for name in names:
        files += ["-r", FOLDER / f"{name}.txt"]
    run(program / "pip", "install", "--require-hashes", *files)

    # Then the release and its extras need nothing more
    extras = {"base": "", "all": f"[{','.join(EXTRAS)}]"}.get(names[0], f"[{','.join(names)}]")
    run(program / "pip", "--isolated", "install", "--no-index", f"{wheel}{extras}")
    run(program / "stayer", "--version")
