"""What a submitter writes as the program of a task costs the store nothing to speak of."""

from __future__ import annotations

from stayer.core.worker_model import Handles
from stayer.store import Store
from tests.contract.builders import ids, new, register, submit, take


def test_words_made_for_patterns_hold_up_nobody(store: Store) -> None:
    """A pattern that tries every way in which stars can stand for something would not end."""
    register(store)
    word = "-" * 3000
    submit(store, new("a", command=(word,)), new("b", command=("/bin/" * 600,)))
    submit(store, new("c", command=("a-b-c.sh",)))
    handles = Handles(programs=("*-*-*-*-*-*.mp4", "*/bin/*/bin/*/bin/*ffmpeg", "*-*-*.sh"))
    assert ids(take(store, limit=9, handles=handles)) == ["c"]
