"""Whether a failed task is tried again, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core import retries
from stayer.core.lifecycle import Fail, decide
from stayer.core.model import Fault, Policy, Task

BOOM = Fault("jobs.Boom", "it broke")


def failed(policy: Policy, failures: int = 0, **fail: object) -> tuple[str, object]:
    task = Task("t", "q", state="started", worker="w", attempt=1, failures=failures, policy=policy)
    change = decide(task, Fail(BOOM, **fail))  # type: ignore[arg-type]
    return change.to, change.delay


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
