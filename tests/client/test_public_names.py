"""What `import stayer` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stayer


@pytest.mark.parametrize("name", stayer.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(stayer, name) is not None
    assert name in dir(stayer)


def test_an_unknown_name_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        _ = stayer.Cleint  # type: ignore[attr-defined]


def ask(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_name_can_be_had_alone() -> None:
    for name in stayer.__all__:
        ask(f"from stayer import {name}")


def test_importing_brings_in_nothing_heavy() -> None:
    loaded = ask("import sys, stayer; print(*sys.modules)").split()
    assert not {"msgspec", "sqlite3", "asyncio", "socket"} & set(loaded)
