"""Patterns of names and programs."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stayer.core.patterns import literal, matches

patterns = st.text("ab./-*?[]!é^%", max_size=10)
words = st.text("abc./-]!é☃^%\n", max_size=8)


@settings(max_examples=2000)
@given(pattern=patterns, word=words)
def test_names_match_as_in_a_shell(pattern: str, word: str) -> None:
    assert matches(word, pattern) == fnmatchcase(word, pattern)


@settings(max_examples=2000)
@given(pattern=patterns, word=words)
def test_programs_match_folder_by_folder(pattern: str, word: str) -> None:
    folders = word.split("/")
    # A slash in brackets would be a part of a folder's name, which has none.
    if "[" in pattern:
        assert not matches(word, pattern, as_path=True) or matches(word, pattern)
        return
    wanted = pattern.split("/")
    expected = len(folders) == len(wanted) and all(map(fnmatchcase, folders, wanted))
    assert matches(word, pattern, as_path=True) == expected


@given(word=st.text(max_size=20), other=st.text("ab*?[]!", max_size=6))
def test_a_literal_matches_itself_and_nothing_else(word: str, other: str) -> None:
    assert matches(word, literal(word))
    assert matches(other, literal(word)) == (other == word)


@pytest.mark.parametrize(
    ("pattern", "word", "found"),
    [
        ("/opt/tools/*", "/opt/tools/a", True),
        ("/opt/tools/*", "/opt/tools/sub/a", False),
        ("/opt/tools/*", "/opt/tools/../../bin/sh", False),
        ("/opt/*/bin/a", "/opt/x/bin/a", True),
        ("/opt/*/bin/a", "/opt/x/y/bin/a", False),
        ("/opt?tools/a", "/opt/tools/a", False),
        ("/opt[!x]tools/a", "/opt/tools/a", False),
        ("/opt[/]tools/a", "/opt/tools/a", False),
        ("ffmpeg", "ffmpeg", True),
        ("ffmpeg", "/usr/bin/ffmpeg", False),
        ("ff*", "ffmpeg", True),
        ("ff*", "ff/mpeg", False),
    ],
)
def test_no_character_of_a_pattern_stands_for_a_slash(pattern: str, word: str, found: bool) -> None:
    assert matches(word, pattern, as_path=True) == found


def test_a_hostile_word_takes_no_time_to_speak_of() -> None:
    """Tried in every way that stars allow, this would not end."""
    assert not matches("-" * 4000, "*-" * 30 + ".sh", as_path=True)
    assert not matches("-" * 4000, "*-" * 30 + ".sh")
