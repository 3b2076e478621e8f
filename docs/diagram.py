"""Draws the state machine from its table: `docs/reference/states.md` and `states.svg`.

`python docs/diagram.py` writes both, `--check` only says whether they are up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple, get_args

from stayer.core.happenings import Happening
from stayer.core.lifecycle import TABLE
from stayer.core.model import FINISHED, QUEUED, RUNNING, STATES, State

REFERENCE = Path(__file__).parent / "reference"
GROUPS: dict[str, tuple[State, ...]] = {"queued": QUEUED, "running": RUNNING, "finished": FINISHED}
MEANINGS: dict[State, str] = {
    "waiting": "waits for other tasks",
    "scheduled": "waits for its eta",
    "pending": "waits for a worker",
    "reserved": "a worker has it",
    "started": "a process runs it",
    "complete": "ended well",
    "failed": "ended badly",
    "cancelled": "ended because somebody wanted it",
}


class Box(NamedTuple):
    """A rectangle by its left upper corner."""

    left: int
    top: int
    width: int
    height: int
    fill: str
    stroke: str


class Route(NamedTuple):
    """The corners of an arrow, the middle of its label, the lines and the note of it."""

    points: tuple[tuple[int, int], ...]
    label: tuple[int, int]
    lines: int = 1
    note: str = ""


WIDTH, HEIGHT = 1160, 548
STATE_BOXES: dict[State, Box] = {
    "waiting": Box(75, 138, 110, 44, "#e3effb", "#3b76b5"),
    "scheduled": Box(75, 338, 110, 44, "#e3effb", "#3b76b5"),
    "pending": Box(230, 232, 130, 56, "#e3effb", "#3b76b5"),
    "reserved": Box(620, 224, 110, 44, "#fdf0d5", "#b9812a"),
    "started": Box(620, 318, 110, 44, "#fdf0d5", "#b9812a"),
    "complete": Box(965, 138, 110, 44, "#dff3e4", "#3c8d57"),
    "failed": Box(965, 238, 110, 44, "#fbe3e1", "#bb4a43"),
    "cancelled": Box(965, 338, 110, 44, "#ececec", "#777777"),
}
GROUP_BOXES: dict[str, Box] = {
    "queued": Box(50, 100, 340, 320, "#f7fafd", "#b9cfe6"),
    "running": Box(580, 100, 190, 320, "#fefaf2", "#e3cfa4"),
    "finished": Box(940, 100, 160, 320, "#fafafa", "#cccccc"),
}
ROUTES: dict[tuple[str, str], Route] = {
    ("waiting", "scheduled"): Route(((130, 182), (130, 338)), (122, 310)),
    ("waiting", "pending"): Route(((185, 160), (262, 160), (262, 232)), (224, 160), 2),
    ("waiting", "cancelled"): Route(
        ((110, 138), (110, 66), (1142, 66), (1142, 360), (1075, 360)), (670, 66)
    ),
    ("scheduled", "waiting"): Route(((95, 338), (95, 182)), (95, 230)),
    ("pending", "waiting"): Route(((230, 258), (165, 258), (165, 182)), (197, 258)),
    ("scheduled", "pending"): Route(((185, 350), (262, 350), (262, 288)), (262, 320)),
    ("pending", "scheduled"): Route(((340, 288), (340, 402), (165, 402), (165, 382)), (265, 402)),
    ("pending", "reserved"): Route(((360, 246), (620, 246)), (486, 246)),
    ("reserved", "started"): Route(((675, 268), (675, 318)), (675, 292)),
    ("running", "complete"): Route(((770, 160), (965, 160)), (855, 160)),
    ("running", "failed"): Route(((770, 260), (965, 260)), (855, 260)),
    ("running", "cancelled"): Route(((770, 360), (965, 360)), (855, 360), 2),
    ("running", "pending"): Route(((580, 274), (360, 274)), (486, 274)),
    ("running", "scheduled"): Route(((580, 370), (185, 370)), (486, 370)),
    ("queued", "complete"): Route(((210, 100), (210, 88), (1000, 88), (1000, 138)), (670, 88)),
    ("failed", "complete"): Route(((1060, 238), (1060, 182)), (1060, 204)),
    ("complete", "failed"): Route(((985, 182), (985, 238)), (985, 218)),
    ("cancelled", "failed"): Route(((1020, 338), (1020, 282)), (1020, 312)),
    ("cancelled", "complete"): Route(((965, 350), (950, 350), (950, 170), (965, 170)), (950, 300)),
    ("queued", "cancelled"): Route(((230, 420), (230, 452), (1020, 452), (1020, 382)), (670, 452)),
    ("queued", "failed"): Route(
        ((190, 420), (190, 486), (1125, 486), (1125, 260), (1075, 260)), (670, 486)
    ),
    ("finished", "waiting"): Route(((1050, 100), (1050, 14), (150, 14), (150, 138)), (670, 14)),
    ("finished", "pending"): Route(((1075, 100), (1075, 36), (300, 36), (300, 232)), (670, 36)),
    ("finished", "scheduled"): Route(
        ((1075, 420), (1075, 518), (130, 518), (130, 382)), (670, 518)
    ),
}


def event_name(kind: type[Happening]) -> str:
    """The event as people say it."""
    return re.sub(r"(?<!^)([A-Z])", r" \1", kind.__name__).lower()


def arrows() -> dict[tuple[str, str], list[str]]:
    """The events from state to state; a whole group that goes the same way shares an arrow."""
    found: dict[tuple[str, str], list[str]] = {}
    for kind in get_args(Happening):
        for target in STATES:
            sources = {
                state
                for state in STATES
                if state != target and target in TABLE.get((state, kind), ())
            }
            for group, members in GROUPS.items():
                if sources.issuperset(members):
                    found.setdefault((group, target), []).append(event_name(kind))
                    sources.difference_update(members)
            for state in sources:
                found.setdefault((state, target), []).append(event_name(kind))
    return found


def stays() -> dict[str, list[str]]:
    """The events that leave the state as it is, by group."""
    return {
        group: [
            event_name(kind)
            for kind in get_args(Happening)
            if all(state in TABLE.get((state, kind), ()) for state in members)
        ]
        for group, members in GROUPS.items()
    }


def draw() -> str:
    """The diagram."""
    found = arrows()
    if found.keys() != ROUTES.keys():
        different = sorted(found.keys() ^ ROUTES.keys())
        raise SystemExit(f"docs/diagram.py: ROUTES and the table differ in {different}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13" text-anchor="middle">',
        "<title>The states of a task and the events between them</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
    ]
    for group, box in GROUP_BOXES.items():
        parts += draw_group(group, box, stays()[group])
    parts += draw_arrow(((12, 260), (50, 260)))
    parts.append('<circle cx="12" cy="260" r="5" fill="#444444"/>')
    for route in ROUTES.values():
        parts += draw_arrow(route.points)
    for state, box in STATE_BOXES.items():
        parts += draw_state(state, box)
    for pair, route in ROUTES.items():
        parts += draw_label(found[pair], route)
    return "\n".join([*parts, "</svg>", ""])


def draw_group(name: str, box: Box, events: Sequence[str]) -> list[str]:
    """A frame around states that go the same ways."""
    parts = [
        rectangle(box, 12),
        f'<text x="{box.left + 12}" y="{box.top + 21}" text-anchor="start" font-size="12" '
        f'fill="#777777">{name}</text>',
    ]
    rows = [", ".join(events[i : i + 2]) for i in range(0, len(events), 2)]
    for number, row in enumerate(rows):
        said = f"stays: {row}" if number == 0 else row
        y = box.top + box.height - 12 - 16 * (len(rows) - 1 - number)
        parts.append(
            f'<text x="{box.left + box.width - 12}" y="{y}" text-anchor="end" font-size="12" '
            f'fill="#777777">{said}{"," if number < len(rows) - 1 else ""}</text>'
        )
    return parts


def draw_state(name: str, box: Box) -> list[str]:
    """A state."""
    x, y = box.left + box.width // 2, box.top + box.height // 2 + 5
    return [
        rectangle(box, 8),
        f'<text x="{x}" y="{y}" font-size="15" font-weight="bold" fill="#222222">{name}</text>',
    ]


def rectangle(box: Box, radius: int) -> str:
    """A box with round corners."""
    return (
        f'<rect x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" '
        f'rx="{radius}" fill="{box.fill}" stroke="{box.stroke}" stroke-width="1.5"/>'
    )


def draw_arrow(points: Sequence[tuple[int, int]]) -> list[str]:
    """A line with round corners; the head is drawn out, since not every viewer knows markers."""
    (x, y), radius = points[-1], 10
    across, down = direction(points[-2], points[-1])
    path = [f"M{points[0][0]},{points[0][1]}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        into, out = direction(before, corner), direction(corner, after)
        path.append(f"L{corner[0] - into[0] * radius},{corner[1] - into[1] * radius}")
        path.append(
            f"Q{corner[0]},{corner[1]} {corner[0] + out[0] * radius},{corner[1] + out[1] * radius}"
        )
    path.append(f"L{x - across * 6},{y - down * 6}")
    left = (x - across * 9 - down * 5, y - down * 9 + across * 5)
    right = (x - across * 9 + down * 5, y - down * 9 - across * 5)
    return [
        f'<path d="{" ".join(path)}" fill="none" stroke="#444444" stroke-width="1.5"/>',
        f'<path d="M{x},{y} L{left[0]},{left[1]} L{right[0]},{right[1]} Z" fill="#444444"/>',
    ]


def direction(start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int]:
    """One step along a level or upright line."""
    across, down = end[0] - start[0], end[1] - start[1]
    return ((across > 0) - (across < 0), (down > 0) - (down < 0))


def draw_label(events: Sequence[str], route: Route) -> list[str]:
    """The events of an arrow, on white so that the line does not run through them."""
    per_line = -(-len(events) // route.lines)
    rows = [", ".join(events[i : i + per_line]) for i in range(0, len(events), per_line)]
    rows[-1] += route.note
    x, middle = route.label
    width = round(max(map(len, rows)) * 6.6) + 10
    top = middle - 9 * len(rows)
    parts = [
        f'<rect x="{x - width // 2}" y="{top}" width="{width}" height="{18 * len(rows)}" rx="6" '
        'fill="#ffffff"/>'
    ]
    for number, row in enumerate(rows):
        parts.append(f'<text x="{x}" y="{top + 13 + 18 * number}" fill="#222222">{row}</text>')
    return parts


def describe() -> str:
    """The page with the diagram and the whole table."""
    lines = [
        "# States",
        "",
        "<!-- Made by docs/diagram.py from the table in src/stayer/core/lifecycle.py. -->",
        "",
        "What can become of a task, and through what. An arrow from a frame goes from each of its",
        "states. Nothing else is possible: what the table does not have is refused.",
        "",
        "![The states of a task and the events between them](states.svg)",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {MEANINGS[state]} |" for state in STATES),
        "",
        "## Events",
        "",
        "| event | meaning |",
        "|---|---|",
        *(f"| `{event_name(kind)}` | {meaning(kind)} |" for kind in get_args(Happening)),
        "",
        "## The table",
        "",
        "Each row is an event, each column the state in which it finds the task, each cell the",
        "states that it may lead to; a dot means that it is refused.",
        "",
        "| event | " + " | ".join(STATES) + " |",
        "|---" * (len(STATES) + 1) + "|",
        *(table_row(kind) for kind in get_args(Happening)),
        "",
    ]
    return "\n".join(lines)


def meaning(kind: type[Happening]) -> str:
    """What the code says of the event."""
    return escape((kind.__doc__ or "").strip(), quote=False)


def table_row(kind: type[Happening]) -> str:
    """All that one event may lead to."""
    cells = []
    for state in STATES:
        targets = TABLE.get((state, kind), ())
        named = ["stays" if target == state else target for target in targets]
        cells.append(", ".join(named) or "·")
    return f"| `{event_name(kind)}` | " + " | ".join(cells) + " |"


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with --check compare them."""
    files = {REFERENCE / "states.md": describe(), REFERENCE / "states.svg": draw()}
    if list(arguments) not in ([], ["--check"]):
        print("usage: python docs/diagram.py [--check]", file=sys.stderr)
        return 2
    stale = [
        path
        for path, content in files.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != content
    ]
    for path in stale:
        if arguments:
            print(f"{path} is stale: run `python docs/diagram.py`", file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
