"""Where a task is to run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.core.errors import BadInput
from stayer.core.model import Policy, Task
from stayer.core.ordering.affinity import WAIT, Near, near, open_to, parts_of_lane
from stayer.core.submit.checks import new_task


def near_lane(node: str, lane: str) -> str:
    """As stores name it."""
    return f"near {len(node.encode())} {node} {lane}"


def test_it_is_the_node_of_the_upstream() -> None:
    upstream = Task("a", "q", node="n")
    assert near(Task("b", "q", policy=Policy(near="a")), upstream) == Near("n", WAIT)
    short = Task("b", "q", policy=Policy(near="a", near_wait=5.0))
    assert near(short, upstream) == Near("n", 5.0)


def test_it_is_nowhere_if_that_never_ran_or_is_not_to_be_waited_for() -> None:
    task = Task("b", "q", policy=Policy(near="a", near_wait=0.0))
    assert near(task, Task("a", "q", node="n")) is None
    assert near(Task("b", "q"), Task("a", "q")) is None
    assert near(Task("b", "q"), None) is None


@given(st.text(), st.text())
def test_a_lane_tells_its_node(node: str, lane: str) -> None:
    assert parts_of_lane(near_lane(node, lane)) == (node, lane)


@pytest.mark.parametrize("lane", ["", "name train", "command near 3 abc", "name near 1 x y"])
def test_other_lanes_have_none(lane: str) -> None:
    assert parts_of_lane(lane) == (None, lane)


def test_lanes_of_other_nodes_are_closed() -> None:
    lanes = ["name a", near_lane("here", "name a"), near_lane("there", "")]
    assert open_to("here", lanes) == [(lanes[0], "name a"), (lanes[1], "name a")]
    assert [name for name, _ in open_to(None, lanes)] == lanes


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"near": "a"}, "near 'a': give the id of a task that it runs after"),
        ({"near": "a", "after": ["b"]}, "near 'a'"),
        ({"near_wait": 3.0}, "near_wait goes with near"),
        ({"near": "a", "after": ["a"], "near_wait": -1.0}, "near_wait -1.0"),
    ],
)
def test_what_can_not_be_is_refused(asked: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        new_task(queue="q", **asked)  # type: ignore[arg-type]
