"""Whose turn it is among the URLs that tasks name."""

from __future__ import annotations

import pytest

from stayer.core.notify.notices import Notice
from stayer.service.notify.turns import (
    HOST_LANES,
    HOST_LINE,
    KNOWN_HOSTS,
    LANES,
    LONGEST_PAUSE_S,
    QUEUE_LANES,
    SLOW_FOR_S,
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
    turns = Turns(LANES)
    many = admitted(turns, *map(notice, range(HOST_LANES + HOST_LINE + 5)))
    lane = Lane("a.example", "q")
    assert many[:HOST_LANES] == [lane] * HOST_LANES
    line, later = many[HOST_LANES:][: HOST_LINE - HOST_LANES], many[-5:]
    assert line == [None] * len(line)
    assert all(isinstance(each, float) for each in later)
    # Others are told meanwhile
    assert admitted(turns, notice(1, "b.example", "r")) == [Lane("b.example", "r")]


def test_the_lanes_tell_the_line_in_order_and_end() -> None:
    turns = Turns(LANES)
    lane, _, *_ = admitted(turns, *map(notice, range(5)))
    assert isinstance(lane, Lane)
    order = [turns.take_next(lane, 0.0) for _ in range(5)]
    assert [each.notice.id for each in order if each] == ["0", "1", "2", "3", "4"]
    assert turns.take_next(lane, 0.0) is None
    assert turns.take_next(lane, 0.0) is None
    # Both have ended, so there is room again
    assert admitted(turns, *map(notice, range(2))) == [lane, lane]


def test_a_queue_with_many_hosts_leaves_lanes_to_others() -> None:
    turns = Turns(LANES)
    hosts = [notice(n, f"{n}.evil.example") for n in range(20)]
    begun = [each for each in admitted(turns, *hosts) if isinstance(each, Lane)]
    assert len(begun) == QUEUE_LANES
    assert isinstance(turns.admit(notice(1, "good.example", "other"), 0.0), Lane)


def tell_all(turns: Turns, lane: Lane, seconds: float, now: float) -> list[bool]:
    """Let a lane tell its line, each in so many seconds; of each, whether it was told."""
    told = []
    while (waiting := turns.take_next(lane, now)) is not None:
        told.append(waiting.pause is None)
        if waiting.pause is None:
            now += seconds
            turns.note(lane, seconds, now)
    return told


def test_silent_hosts_of_any_number_leave_places_to_those_that_answer() -> None:
    turns = Turns(LANES)
    for number in range(3):
        good = turns.admit(notice(number, "good.example", "other"), 0.0)
        assert isinstance(good, Lane)
        tell_all(turns, good, 0.1, 0.0)
    silent = [notice(n, f"{n % 40}.evil.example", f"q{n % 50}") for n in range(2000)]
    for round in range(5):
        begun = [each for each in admitted(turns, *silent, now=round) if isinstance(each, Lane)]
        assert 0 < len(begun) <= LANES * 3 // 4
        lane = turns.admit(notice(1, "good.example", "other"), round)
        assert isinstance(lane, Lane)
        assert turns.room > 0
        tell_all(turns, lane, 0.1, round)
        for each in begun:
            tell_all(turns, each, 15.0, round)


def test_silent_hosts_leave_places_to_hosts_that_are_new() -> None:
    turns = Turns(LANES)
    silent = [notice(n, f"{n % 8}.evil.example", f"q{n}") for n in range(200)]
    now = 0.0
    for _ in range(4):  # until all of them are known
        begun = [each for each in admitted(turns, *silent, now=now) if isinstance(each, Lane)]
        for each in begun:
            tell_all(turns, each, 15.0, now)
        now += 100.0
    begun = [each for each in admitted(turns, *silent, now=now) if isinstance(each, Lane)]
    assert [each.kind for each in begun] == ["slow"] * (LANES // 4)
    fresh = [turns.admit(notice(n, f"{n}.example", f"r{n}"), now) for n in range(3)]
    assert all(isinstance(each, Lane) for each in fresh)


def test_a_line_whose_host_turns_out_to_be_slow_is_put_back_if_others_are_slow() -> None:
    turns = Turns(LANES)
    lanes = []
    for host in ("a.example", "b.example", "c.example", "d.example"):
        lane, *_ = admitted(turns, *(notice(n, host, host) for n in range(HOST_LANES)))
        turns.abandon(Lane(host, host))  # one of the two is enough here
        assert isinstance(lane, Lane)
        lanes.append(lane)
    for lane in lanes:
        turns.take_next(lane, 0.0)
        turns.note(lane, 15.0, 15.0)
    kinds = [(turns.take_next(lane, 15.0), lane.kind) for lane in lanes]
    assert [kind for _, kind in kinds] == ["slow", "slow", "slow", "new"]
    assert [each.pause is None for each, _ in kinds if each] == [True, True, True, False]


def test_a_host_that_has_been_slow_is_so_for_a_while() -> None:
    turns = Turns(LANES)
    lane = turns.admit(notice(0), 0.0)
    assert isinstance(lane, Lane)
    tell_all(turns, lane, 15.0, 0.0)
    for now, kind in ((16.0, "slow"), (17.0, "slow"), (16.0 + SLOW_FOR_S, "quick")):
        lane = turns.admit(notice(1), now)
        assert isinstance(lane, Lane)
        assert lane.kind == kind
        tell_all(turns, lane, 0.1, now)


def test_of_very_many_hosts_some_are_remembered() -> None:
    turns = Turns(LANES)
    for number in range(2 * KNOWN_HOSTS):
        for seconds in (0.1, 15.0):
            lane = turns.admit(notice(number, f"{seconds}.{number}.example"), 0.0)
            assert isinstance(lane, Lane)
            tell_all(turns, lane, seconds, 0.0)
    assert len(turns._quick) == len(turns._slow_until) == KNOWN_HOSTS


def test_what_is_put_back_comes_again_one_after_another_and_later_for_who_is_slow() -> None:
    def pauses(seconds: float) -> list[float]:
        turns = Turns(LANES)
        lane = turns.admit(notice(0), 0.0)
        assert isinstance(lane, Lane)
        turns.note(lane, seconds, 0.0)
        many = admitted(turns, *map(notice, range(1000)))
        return [each for each in many if isinstance(each, float)]

    quick, slow = pauses(0.1), pauses(15.0)
    assert quick == sorted(quick)
    assert slow[0] == 15.0 / HOST_LANES
    assert slow[1] == 2 * slow[0]
    assert slow[-1] == LONGEST_PAUSE_S
    assert quick[-1] < LONGEST_PAUSE_S / 5


def test_nothing_is_kept_of_who_waits_for_nothing() -> None:
    turns = Turns(LANES)
    for number in range(100):
        lane = turns.admit(notice(number, f"{number}.example", str(number)), 0.0)
        if isinstance(lane, Lane):
            while turns.take_next(lane, 0.0):
                pass
    turns.forget_idle(1000.0)
    assert not turns._hosts
    assert not turns._queues
    assert turns.room == LANES * HOST_LINE


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
