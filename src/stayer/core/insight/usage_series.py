"""How a series of usage stays short, however long the attempt runs. Pure.

Time is cut into slots on a grid that widens as the attempt grows older: 5 s at first, twice that
whenever there would be over `POINTS` of them. A slot holds the newest point that fell into it.
"""

from __future__ import annotations

POINTS = 480
STATISTICS = -1
"""The slot of what the attempt itself reports: that is kept, moved and forgotten with its usage."""
_FINEST = 5


def slot(ran: float) -> tuple[int, int]:
    """Return the slot of a point, named by the second at which it begins, and the grid's width."""
    width = _FINEST
    while ran >= width * POINTS:
        width *= 2
    return int(ran // width) * width, width


def begins_wider_grid(start: int, width: int) -> bool:
    """Return the first slot on a grid of this width: points that are not on it can go."""
    return width > _FINEST and start == width * POINTS // 2
