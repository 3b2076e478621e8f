"""JSON and signals without the modules that cost every keeper memory."""

from __future__ import annotations

import json
import math
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.keeper.lean import dumps, loads, signal_number
from tests.keeper.harness import PYTHON, SOURCE

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values))
def test_json_is_that_of_the_library(content: dict[str, object]) -> None:
    assert json.loads(dumps(content)) == content
    for written in (json.dumps(content, indent=2), json.dumps(content, ensure_ascii=False)):
        assert loads(f" {written}\n".encode(errors="surrogatepass")) == content


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_without_a_word_become_null(number: float) -> None:
    assert json.loads(dumps({"x": number})) == {"x": None}


@pytest.mark.parametrize(
    "text", [b"", b" ", b"{", b"[]", b'"x"', b"null", b"{} {}", b'{"x": }', b"{'x': 1}", b"\xff"]
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        loads(text)


@pytest.mark.parametrize("name", ["", "TERM", "SIGNO", "SIG_DFL", "pause", "sigwait"])
def test_what_is_no_signal_is_none(name: str) -> None:
    assert signal_number(name) == 0


def test_a_signal_has_its_number() -> None:
    assert (signal_number("SIGTERM"), signal_number("SIGKILL")) == (15, 9)


def test_keepers_do_without_large_modules() -> None:
    code = f"""
import sys, types
package = types.ModuleType("keeper")
package.__path__ = [{str(SOURCE)!r}]
sys.modules["keeper"] = package
import keeper.nursery
print(*sys.modules)
"""
    words = subprocess.check_output([PYTHON, "-I", "-S", "-c", code], text=True).split()
    assert "keeper.nursery" in words
    for costly in ("json", "re", "enum", "signal", "typing", "collections", "functools", "runpy"):
        assert costly not in words
