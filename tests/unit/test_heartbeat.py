"""How a worker's heartbeat goes on when beats fail."""

from __future__ import annotations

from stayer.service.lease.heartbeat import retry_pause


def test_beats_that_fail_for_days_are_tried_again() -> None:
    assert [retry_pause(failures) for failures in (1, 2, 3)] == [0.2, 0.4, 0.8]
    assert 3600 < retry_pause(30) == retry_pause(1_000_000)
