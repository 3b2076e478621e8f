"""Who may be declared lost, when: by the judge's own clock and its own unbroken row of beats."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stayer.core.liveness.judge import Judge
from stayer.core.worker_model import Suspect

INTERVAL = 10.0
LEASE = 80.0
SILENT = Suspect("w", 7, LEASE)


def watch(judge: Judge, *moments: float, suspect: Suspect = SILENT) -> dict[str, int]:
    verdict: dict[str, int] = {}
    for moment in moments:
        verdict = judge.observe(moment, [suspect])
    return verdict


def row(begin: float, end: float) -> list[float]:
    return [begin + INTERVAL * step for step in range(int((end - begin) / INTERVAL) + 1)]


def test_a_suspect_is_dead_after_its_lease_and_a_margin() -> None:
    judge = Judge(INTERVAL)
    assert watch(judge, *row(0, 90)) == {}
    assert watch(judge, 100) == {"w": 7}


def test_the_first_sight_of_a_suspect_is_never_enough() -> None:
    assert watch(Judge(INTERVAL), 1_000_000) == {}


def test_a_number_that_moved_begins_anew() -> None:
    judge = Judge(INTERVAL)
    watch(judge, *row(0, 80))
    moved = Suspect("w", 8, LEASE)
    assert watch(judge, *row(90, 180), suspect=moved) == {}
    assert watch(judge, 190, suspect=moved) == {"w": 8}


def test_a_suspect_that_beat_meanwhile_begins_anew() -> None:
    judge = Judge(INTERVAL)
    watch(judge, *row(0, 80))
    assert judge.observe(90, []) == {}
    assert watch(judge, *row(100, 190)) == {}


def test_a_judge_that_slept_begins_anew() -> None:
    judge = Judge(INTERVAL)
    watch(judge, *row(0, 80))
    assert watch(judge, 500) == {}
    assert watch(judge, *row(510, 590)) == {}
    assert watch(judge, 600) == {"w": 7}


def test_each_suspect_is_measured_by_its_own_lease() -> None:
    judge = Judge(INTERVAL)
    patient = Suspect("p", 1, 1000.0)
    dead: dict[str, int] = {}
    for moment in row(0, 200):
        dead = judge.observe(moment, [SILENT, patient])
    assert dead == {"w": 7}


@given(
    st.lists(st.floats(0.1, 60.0), max_size=60),
    st.lists(st.integers(1, 3), min_size=60, max_size=60),
)
def test_nobody_is_declared_lost_who_was_not_watched_for_a_whole_lease(
    pauses: list[float], numbers: list[int]
) -> None:
    judge, moment = Judge(INTERVAL), 0.0
    seen: list[tuple[float, int]] = []
    for pause, number in zip(pauses, numbers, strict=False):
        moment += pause
        seen.append((moment, number))
        if judge.observe(moment, [Suspect("w", number, LEASE)]):
            since = [at for at, _ in seen if at >= moment - LEASE]
            watched = [n for at, n in seen if at >= moment - LEASE]
            assert set(watched) == {number}
            gaps = [later - earlier for earlier, later in pairwise(since)]
            assert max(gaps) <= 2.5 * INTERVAL
            assert seen[0][0] <= moment - LEASE


def test_a_judge_that_looks_seldom_does_not_take_an_outage_for_a_death() -> None:
    """Its own lease is long, the suspect's is short: two looks are too few."""
    judge, brief = Judge(15.0), Suspect("w", 7, 10.0)
    assert judge.observe(0, [brief]) == {}
    assert judge.observe(37, [brief]) == {}
    assert judge.observe(52, []) == {}
    for moment in (67.0, 82.0, 97.0, 112.0):
        assert judge.observe(moment, [brief]) == {}
    assert judge.observe(127, [brief]) == {"w": 7}
