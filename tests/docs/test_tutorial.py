"""The first lesson, done as a reader does it: every file, every command, in two terminals."""

from __future__ import annotations

import sys

import pytest

from tests.docs.pages import blocks
from tests.docs.reader import Reader


@pytest.mark.skipif(sys.platform != "linux", reason="workers run on Linux")
def test_the_first_lesson_works_as_written(reader: Reader) -> None:
    followed = blocks("tutorial/index.md")
    assert len(followed) > 10
    for block in followed:
        reader.follow(block)
