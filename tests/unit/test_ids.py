"""Ids that are drawn at random."""

from __future__ import annotations

from stayer.core.ids import generate, generate_many
from tests.contract.builders import in_thread


def test_ids_that_are_drawn_at_the_same_moment_differ() -> None:
    draws = [in_thread(lambda: [generate() for _ in range(2000)]) for _ in range(4)]
    draws += [in_thread(lambda: generate_many(2000)) for _ in range(4)]
    drawn = [id for draw in draws for id in draw()]
    assert len(set(drawn)) == 16_000
