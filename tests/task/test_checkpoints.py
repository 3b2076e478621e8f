"""The `checkpoint` file: states and steps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from stayer import BadInput, Context, TooLarge
from stayer.task.checkpoints import Checkpoints

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MAGIC = b"\xfe\xd7stayer-checkpoint 1\n"
BYTES = st.binary() | st.sampled_from([b"", b"1", b"{}", MAGIC, MAGIC + b"{}\n"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@given(st.lists(JSON | BYTES, max_size=3), st.dictionaries(st.text(), JSON | BYTES, max_size=3))
def test_what_is_saved_comes_back(states: list[Any], steps: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = Checkpoints(f"{folder}/checkpoint")
        for name, result in steps.items():
            assert first.save_step(name, result) == result
        for state in states:
            first.save(state)
        second = Checkpoints(f"{folder}/checkpoint")
        assert second.state() == (states[-1] if states else UNSET)
        assert type(second.state()) is type(states[-1] if states else UNSET)
        assert second.steps() == steps


def test_without_steps_the_file_is_the_state_for_any_program(file: Path) -> None:
    saved = Checkpoints(str(file))
    saved.save({"epoch": 3})
    assert file.read_bytes() == b'{"epoch":3}'
    saved.save(bytearray(b"\x00\xff"))
    assert file.read_bytes() == b"\x00\xff"


@pytest.mark.parametrize(
    ("written", "read"),
    [(b"", UNSET), (b"epoch-17.pt\n", b"epoch-17.pt\n"), (b'{"epoch": 17}\n', {"epoch": 17})],
)
def test_what_other_programs_wrote_is_json_or_bytes(file: Path, written: bytes, read: Any) -> None:
    file.write_bytes(written)
    assert Checkpoints(str(file)).state() == read


def test_with_steps_the_file_has_the_documented_form(file: Path) -> None:
    saved = Checkpoints(str(file))
    saved.save(b"state")
    saved.save_step("fetch", [1, 2])
    saved.save_step("draw", b"\x89PNG")
    head = b'{"state":"bytes","steps":{"fetch":{"json":[1,2]},"draw":{"base64":"iVBORw=="}}}\n'
    assert file.read_bytes() == MAGIC + head + b"state"


def test_bytes_of_a_shell_are_kept_as_they_are_beside_the_steps(file: Path) -> None:
    saved = Checkpoints(str(file))
    saved.save_bytes(b"42")
    assert file.read_bytes() == b"42"
    saved.save_step("fetch", 1)
    saved.save_bytes(b"43")
    assert (saved.state(), saved.steps()) == (b"43", {"fetch": 1})


def test_the_default_is_for_when_nothing_was_saved(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    assert task.restore() is None
    assert task.restore({"epoch": 0}) == {"epoch": 0}
    task.step("one", int)
    assert task.restore(7) == 7
    task.checkpoint(None)
    assert task.restore(7) is None


def test_a_checkpoint_that_is_too_large_leaves_the_last_one(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    task.checkpoint(b"good")
    for state in (b"x" * 16_000_001, "x" * 16_000_001):
        with pytest.raises(TooLarge, match=r"16 MB|16,000,000"):
            task.checkpoint(state)
    assert task.restore() == b"good"
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_a_state_that_json_can_not_say_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"the checkpoint\['loss'\] is nan"):
        Context.for_test(folder=tmp_path).checkpoint({"loss": float("nan")})


@pytest.mark.parametrize(
    "content", [MAGIC, MAGIC + b"{", MAGIC + b"[]\n", b"\xfe\xd7stayer-checkpoint 2\n{}\n"]
)
def test_a_checkpoint_that_can_not_be_understood_is_told(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(BadInput, match="newer Stayer, or is damaged"):
        Checkpoints(str(file)).state()


def test_a_write_that_fails_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Context.for_test(folder=tmp_path)
    task.checkpoint(1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        task.checkpoint(2)
    assert (task.restore(), os.listdir(tmp_path)) == (1, ["checkpoint"])
