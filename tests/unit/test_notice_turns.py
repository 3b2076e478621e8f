"""Whose turn it is among the URLs that tasks name."""

from __future__ import annotations

import pytest

from stayer.core.notify.notices import Notice
from stayer.service.notify.turns import (
    HOST_LANES,
    HOST_LINE,
    LONGEST_PAUSE_S,
    QUEUE_LANES,
    Lane,
    Turns,
    host_of,
)


def notice(number: int, host: str = "a.example", queue: str = "q") -> Notice:
    return Notice(
        id=str(number), task="t", queue=queue, event="failed", to=f"https://{host}/{number}",
        attempt=1, at=0.0,
    )  # fmt: skip


def admitted(turns: Turns, *notices: Notice, now: float = 0.0) -> list[Lane | float | None]:
    return [turns.admit(each, now) for each in notices]


def test_a_host_has_a_few_lanes_and_a_short_line() -> None:
    turns = Turns(8)
    many = admitted(turns, *map(notice, range(HOST_LANES + HOST_LINE + 5)))
    lane = Lane("a.example", "q")
    assert many[:HOST_LANES] == [lane] * HOST_LANES
    line, later = many[HOST_LANES:][: HOST_LINE - HOST_LANES], many[-5:]
    assert line == [None] * len(line)
    assert all(isinstance(each, float) for each in later)
    # Others are told meanwhile
    assert admitted(turns, notice(1, "b.example", "r")) == [Lane("b.example", "r")]


def test_the_lanes_tell_the_line_in_order_and_end() -> None:
    turns = Turns(8)
    lane, _, *_ = admitted(turns, *map(notice, range(5)))
    assert isinstance(lane, Lane)
    order = [turns.take_next(lane) for _ in range(5)]
    assert [each.notice.id for each in order if each] == ["0", "1", "2", "3", "4"]
    assert turns.take_next(lane) is None
    assert turns.take_next(lane) is None
    # Both have ended, so there is room again
    assert admitted(turns, *map(notice, range(2))) == [lane, lane]


def test_a_queue_with_many_hosts_leaves_lanes_to_others() -> None:
    turns = Turns(8)
    hosts = [notice(n, f"{n}.evil.example") for n in range(20)]
    begun = [each for each in admitted(turns, *hosts) if isinstance(each, Lane)]
    assert len(begun) == QUEUE_LANES
    assert isinstance(turns.admit(notice(1, "good.example", "other"), 0.0), Lane)


def test_what_is_put_back_comes_again_one_after_another_and_later_for_who_is_slow() -> None:
    def pauses(seconds: float) -> list[float]:
        turns = Turns(8)
        lane = turns.admit(notice(0), 0.0)
        assert isinstance(lane, Lane)
        turns.note(lane, seconds)
        many = admitted(turns, *map(notice, range(1000)))
        return [each for each in many if isinstance(each, float)]

    quick, slow = pauses(0.1), pauses(15.0)
    assert quick == sorted(quick)
    assert slow[0] == 15.0 / HOST_LANES
    assert slow[1] == 2 * slow[0]
    assert slow[-1] == LONGEST_PAUSE_S
    assert quick[-1] < LONGEST_PAUSE_S / 5


def test_nothing_is_kept_of_who_waits_for_nothing() -> None:
    turns = Turns(8)
    for number in range(100):
        lane = turns.admit(notice(number, f"{number}.example", str(number)), 0.0)
        if isinstance(lane, Lane):
            while turns.take_next(lane):
                pass
    turns.forget_idle(1000.0)
    assert not turns._hosts
    assert not turns._queues
    assert turns.room == 8 * HOST_LINE


def test_a_lane_that_could_not_be_begun_leaves_its_place() -> None:
    turns = Turns(1)
    lane = turns.admit(notice(1), 0.0)
    assert isinstance(lane, Lane)
    assert turns.room == 0
    turns.abandon(lane)
    assert isinstance(turns.admit(notice(2), 0.0), Lane)


@pytest.mark.parametrize(
    "url",
    ["https://a.example", "http://A.Example:80/x", "https://a.example./?b", "http://a.example#c"],
)
def test_a_host_is_known_however_it_is_written(url: str) -> None:
    assert host_of(url) == "a.example"


def test_what_is_no_url_has_one_host_for_all() -> None:
    assert host_of("http://[::1") == host_of("x") == ""
