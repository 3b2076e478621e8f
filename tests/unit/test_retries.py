"""Whether a failed task is tried again, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stayer.core import retries
from stayer.core.errors import BadInput
from stayer.core.happenings import Fail
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Policy, Task
from stayer.core.submit.checks import new_task
from stayer.core.submit.policy import check_policy

BOOM = Fault("jobs.Boom", "it broke")


def failed(policy: Policy, failures: int = 0, **fail: object) -> tuple[str, object]:
    task = Task("t", "q", state="started", worker="w", attempt=1, failures=failures, policy=policy)
    change = decide(task, Fail(BOOM, **fail))  # type: ignore[arg-type]
    return change.to, change.effect.times.get("eta")


policies = st.builds(
    Policy,
    retries=st.integers(1, 50),
    retry_wait=st.floats(0.001, 10_000),
    retry_backoff=st.floats(1, 100),
    retry_cap=st.floats(0, 100_000),
)


@given(policies, st.integers(1, 1000), st.text(max_size=20))
def test_a_wait_is_near_what_was_asked_for_and_never_far_over_the_cap(
    policy: Policy, failures: int, id: str
) -> None:
    wait = retries.wait(policy, failures, id)
    plain = min(
        policy.retry_cap, policy.retry_wait * policy.retry_backoff ** min(failures - 1, 100)
    )
    assert 0.75 * plain <= wait <= 1.25 * plain
    assert wait == retries.wait(policy, failures, id)


def test_waits_grow_and_are_spread() -> None:
    policy = Policy(retries=9, retry_wait=10.0, retry_cap=1000.0)
    waits = [retries.wait(policy, failures, "t") for failures in range(1, 20)]
    assert waits[0] < waits[2] < waits[4] < waits[6]
    assert max(waits) <= 1250.0
    assert len({retries.wait(policy, 1, str(number)) for number in range(100)}) > 90


def test_a_retry_waits_as_scheduled_or_comes_at_once() -> None:
    to, delay = failed(Policy(retries=1, retry_wait=10.0))
    assert to == "scheduled"
    assert isinstance(delay, float)
    assert 7.5 <= delay <= 12.5
    assert failed(Policy(retries=1)) == ("pending", None)


@pytest.mark.parametrize(("failures", "to"), [(0, "scheduled"), (1, "scheduled"), (2, "failed")])
def test_retries_are_a_budget(failures: int, to: str) -> None:
    assert failed(Policy(retries=2, retry_wait=1.0), failures)[0] == to


@pytest.mark.parametrize(
    ("policy", "to"),
    [
        (Policy(retries=5, retry_on=("oom",)), "failed"),
        (Policy(retries=5, retry_on=("oom", "Boom")), "pending"),
        (Policy(retries=5, retry_on=("jobs.*",)), "pending"),
        (Policy(retries=5, retry_on=("boom",)), "failed"),
        (Policy(retries=5, give_up_on=("Bo*",)), "failed"),
        (Policy(retries=5, give_up_on=("error",)), "failed"),
        (Policy(retries=5, give_up_on=("timeout",)), "pending"),
        (Policy(retries=5, retry_on=("Boom",), give_up_on=("Boom",)), "failed"),
    ],
)
def test_by_the_kind_of_ending_or_error(policy: Policy, to: str) -> None:
    assert failed(policy)[0] == to


def test_what_a_task_asks_for_itself() -> None:
    policy = Policy(retries=2, retry_wait=10.0)
    assert failed(policy, after=3.5) == ("scheduled", 3.5)
    assert failed(policy, after=0.0) == ("pending", None)
    assert failed(policy, failures=2, after=3.5)[0] == "failed", "within its budget"
    assert failed(policy, final=True)[0] == "failed"


def limits_of_tries(policy: Policy, *endings: str) -> list[tuple[float | None, int | None]]:
    """The time and memory limits of the tries that follow those that ended so."""
    task = Task("t", "q", state="started", worker="w", attempt=1, policy=policy)
    found = []
    for ending in endings:
        change = decide(task, Fail(BOOM, ending=ending))  # type: ignore[arg-type]
        said = change.effect.sets.get("policy", task.policy)
        task = replace(task, policy=said, failures=task.failures + 1)
        found.append((said.time_limit, said.memory_limit))
    return found


def test_a_try_that_exceeded_its_limit_is_followed_by_one_with_more() -> None:
    policy = Policy(
        retries=9, time_limit=60.0, time_growth=3.0, memory_limit=8, memory_growth=2.0,
        memory_most=30,
    )  # fmt: skip
    assert limits_of_tries(policy, "oom", "timeout", "oom", "error", "killed", "oom") == [
        (60.0, 16), (180.0, 16), (180.0, 30), (180.0, 30), (180.0, 30), (180.0, 30),
    ]  # fmt: skip


def test_a_limit_above_the_most_is_not_made_smaller() -> None:
    policy = Policy(retries=9, memory_limit=100, memory_growth=2.0, memory_most=30)
    assert limits_of_tries(policy, "oom") == [(None, 100)]


def test_without_a_ladder_nothing_grows() -> None:
    task = Task("t", "q", state="started", worker="w", attempt=1, policy=Policy(2, time_limit=5.0))
    assert "policy" not in decide(task, Fail(BOOM, ending="timeout")).effect.sets


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"time_growth": 2.0}, "time_limit grow"),
        ({"memory_limit": 5, "memory_growth": 0.5}, "from 1 to 100"),
        ({"memory_limit": 5, "memory_growth": 2.0, "memory_most": -1}, "bytes"),
    ],
)
def test_a_ladder_that_makes_no_sense(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        check_policy(**asked)


@pytest.mark.parametrize("name", ["time_limit", "silence_limit", "memory_limit"])
@pytest.mark.parametrize("nothing", [0, 0.0])
def test_a_limit_that_leaves_nothing_is_refused(name: str, nothing: Any) -> None:
    with pytest.raises(BadInput, match=f"{name} 0.*: leave it out"):
        new_task(**{"queue": "q", name: nothing})
