"""Whose turn it is."""

from __future__ import annotations

import pytest

from stayer.core.ordering.fair_share import FORGOTTEN, HALF_LIFE, USUAL_RUN, Share, Turns

NOW = 1_000_000_000.0


def test_what_was_used_halves_in_a_day_and_is_forgotten_in_a_month() -> None:
    share = Share(100.0, 4.0, NOW)
    assert (HALF_LIFE, FORGOTTEN) == (86400.0, 30 * 86400.0)
    assert share.at_moment(NOW) == share
    assert share.at_moment(NOW + HALF_LIFE) == Share(50.0, 2.0, NOW + HALF_LIFE)
    assert share.at_moment(NOW + FORGOTTEN) == Share(0.0, 0.0, NOW + FORGOTTEN)
    assert share.at_moment(NOW + FORGOTTEN - 1).used > 0


def test_a_clock_that_was_set_back_adds_nothing() -> None:
    assert Share(100.0, 4.0, NOW).at_moment(NOW - HALF_LIFE).used == 100.0


def test_a_run_is_added_to_what_is_left() -> None:
    assert Share(100.0, 4.0, NOW).after_run(7.0, NOW + HALF_LIFE) == Share(
        57.0, 3.0, NOW + HALF_LIFE
    )
    assert Share(100.0, 4.0, NOW).after_run(-7.0, NOW) == Share(100.0, 5.0, NOW)


def test_what_runs_counts_as_a_usual_run_at_least() -> None:
    turns = Turns({}, [("short", NOW - 1), ("long", NOW - 500)], NOW)
    assert turns.usage_ms("short") == USUAL_RUN * 1000
    assert turns.usage_ms("long") == 500_000
    assert turns.usage_ms("nobody") == 0


def test_a_usual_run_is_learnt_from_those_that_ended() -> None:
    shares = {"a": Share(30.0, 3.0, NOW), "b": Share(10.0, 1.0, NOW)}
    turns = Turns(shares, [("b", NOW)], NOW)
    assert (turns.usage_ms("a"), turns.usage_ms("b")) == (30_000, 20_000)
    turns.take("b")
    assert turns.usage_ms("b") == 30_000


@pytest.mark.parametrize("share", [Share(0.0, 5.0, NOW), Share(5.0, 0.0, NOW)])
def test_with_nothing_to_learn_from_it_is_a_minute(share: Share) -> None:
    turns = Turns({"a": share}, [("b", NOW)], NOW)
    assert turns.usage_ms("b") == 60_000
