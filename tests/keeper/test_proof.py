"""The proof that nothing moves: two walks in a row that find all stopped, and nothing new."""

from __future__ import annotations

import pytest

from stayer.keeper import tree
from stayer.keeper.kernel import moment

RUNS, STOPPED = b"R", b"T"


def walk(**processes: bytes) -> list[tuple[int, tree.Stat]]:
    """What a walk finds: processes p1, p2 … and their states."""
    fields = {name: [state, *[b"1"] * 30] for name, state in processes.items()}
    return [(int(name[1:]), stat) for name, stat in fields.items()]


@pytest.mark.parametrize(
    ("walks", "needed"),
    [
        ([walk(p1=STOPPED), walk(p1=STOPPED)], 2),
        # One that was born behind our back, and had stopped itself when it was found.
        ([walk(p1=STOPPED), walk(p1=STOPPED, p2=STOPPED), walk(p1=STOPPED, p2=STOPPED)], 3),
        # One that was awake at the second look.
        ([walk(p1=STOPPED), walk(p1=RUNS), walk(p1=STOPPED), walk(p1=STOPPED)], 4),
        # Another in the place of one that ended.
        ([walk(p1=STOPPED), walk(p2=STOPPED), walk(p2=STOPPED)], 3),
    ],
)
def test_one_walk_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, walks: list[list[tuple[int, tree.Stat]]], needed: int
) -> None:
    left = iter(walks)
    taken = []

    def below(root: int) -> list[tuple[int, tree.Stat]]:
        taken.append(root)
        return next(left)

    monkeypatch.setattr(tree, "below", below)
    monkeypatch.setattr(tree, "send", lambda processes, number: None)
    assert tree.freeze(1, moment() + 60.0)
    assert len(taken) == needed


def test_what_goes_on_moving_is_not_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "below", lambda root: walk(p1=RUNS))
    monkeypatch.setattr(tree, "send", lambda processes, number: None)
    assert not tree.freeze(1, moment() + 0.02)


def test_children_are_killed_before_their_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its parent would make the kernel continue a stopped process group."""
    killed: list[int] = []
    monkeypatch.setattr(tree, "below", lambda root: walk(p1=STOPPED, p2=STOPPED, p3=STOPPED))
    monkeypatch.setattr(
        tree, "send", lambda processes, number: killed.extend(pid for pid, _ in processes)
    )
    tree.kill(1)
    assert killed == [3, 2, 1]
