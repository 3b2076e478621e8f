"""`stayer stats`."""

from __future__ import annotations

import json

from stayer.core.happenings import Done
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Here
from tests.contract.builders import Clock, apply, fill, register, started


def played(store: Store, url: str) -> None:
    """Two minutes of an hour ago."""
    clock = Clock((store.now() - 3600) // 60 * 60)
    past = open_store(url, clock=clock)
    try:
        register(past)
        past.sample()
        apply(past, started(past), Done())
        fill(past, 2)
        clock.advance(60)
        past.sample()
    finally:
        past.close()


def test_what_was_counted_is_shown(stayer: Here, store: Store, url: str) -> None:
    played(store, url)
    heading, *lines = stayer("stats").works().out.splitlines()
    assert heading.split() == [
        "FROM", "SUBMITTED", "COMPLETE", "FAILED", "CANCELLED", "DEPTH", "RUNNING", "OLDEST",
        "RAN", "WAITED",
    ]  # fmt: skip
    assert lines[-1].split()[3:9] == ["3", "1", "0", "0", "2", "0"]

    shown = json.loads(stayer("stats", "-q", "q", "--step", "1m", "--json").works().out)
    assert [(each["queue"], each["submitted"], each["depth"]) for each in shown] == [("q", 3, 2)]
    assert "QUEUE" in stayer("stats", "--each", "--since", "30d").works().out


def test_what_can_not_be_shown_is_said(stayer: Here, store: Store) -> None:
    nothing = stayer("stats", "-q", "nobody")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing was counted" in nothing.err
    stayer("stats", "--step", "10s").refuses("whole minutes")
    stayer("stats", "--step", "1m", "--since", "90d").refuses("longer steps")
