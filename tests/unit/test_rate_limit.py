"""How often tasks may begin."""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput
from stayer.core.ordering.rate_limit import Bucket, format_rate, parse
from stayer.core.queue_model import Rate

RATE = Rate(6, 60.0)


def test_a_bucket_that_was_never_used_is_full() -> None:
    bucket = Bucket(RATE, 0.0, None)
    assert (bucket.level(5.0), bucket.room(5.0), bucket.next(5.0)) == (6.0, 6, None)


@pytest.mark.parametrize(
    ("tokens", "after", "level", "room", "wait"),
    [
        (0.0, 0.0, 0.0, 0, 10.0),
        (0.0, 4.0, 0.4, 0, 6.0),
        (0.0, 10.0, 1.0, 1, None),
        (0.5, 0.0, 0.5, 0, 5.0),
        (2.0, 25.0, 4.5, 4, None),
        (2.0, 1e9, 6.0, 6, None),
        (2.0, -50.0, 2.0, 2, None),
        (0.0, -50.0, 0.0, 0, 10.0),
        (0.0, -61.0, 6.0, 6, None),
    ],
)
def test_it_fills_with_time_up_to_its_size(
    tokens: float, after: float, level: float, room: int, wait: float | None
) -> None:
    bucket, now = Bucket(RATE, tokens, 1000.0), 1000.0 + after
    assert bucket.level(now) == pytest.approx(level)
    assert bucket.room(now) == room
    assert bucket.next(now) == (None if wait is None else pytest.approx(now + wait))


def test_whoever_sleeps_until_the_next_start_finds_it() -> None:
    bucket = Bucket(Rate(3, 0.7), 0.1, 1_700_000_000.0)
    following = bucket.next(1_700_000_000.0)
    assert following is not None
    assert bucket.room(following) == 1
    assert bucket.room(following - 0.01) == 0


@pytest.mark.parametrize("text", ["1/1h", "100/1m", "5/10s", "7/1d", "3/0.5s"])
def test_a_rate_is_read_as_it_is_written(text: str) -> None:
    assert format_rate(parse(text)) == text


@pytest.mark.parametrize("text", ["0/1h", "1", "x/1h", "1/", "1/0s", "1/400d", "2147483648/1h"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="rate"):
        parse(text)
