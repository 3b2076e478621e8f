"""Fields that there are not, one of each kind, added to a copy of Stayer as somebody would who adds
a field: a line in the classes of `core/model.py`, and a row in `core/fields.py`. As a program it
runs in that copy, `python -m tests.contract.made_up URL`, and does with them what is done with
others.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stayer
from stayer.core.fields import STORED

_FIRST = 1 + max(field.row.number or 0 for field in STORED)
"""The first place in a record of Redis that no field has."""
_IN_POLICY = "    patience: Seconds | None = None\n"
_IN_TASK = """\
    colour: str | None = None
    season: Literal["spring", "autumn"] = "spring"
    petals: int = 7
    height: float = 1.5
    wild: bool = False
    harvest: EpochSeconds | None = None
    lasts: Seconds = 2.0
    weight: ByteCount | None = None
    shades: tuple[str, ...] = ()
    labels: dict[str, str] | None = None
"""
_ROWS = """\
        "colour": Row(
            "which colour it has", _FIRST, "Its colour.", metavar="COLOUR", most=Most(64),
            of_queue=True,
        ),
        "season": Row("when it is planted", _FIRST + 1, "When to plant it."),
        "petals": Row("how many it has", _FIRST + 2, "How many petals it has."),
        "height": Row("how tall it is", _FIRST + 3, "How tall it is."),
        "wild": Row("whether nobody planted it", _FIRST + 4, "Nobody planted it."),
        "harvest": Row("when it is ripe", _FIRST + 5, "When it is ripe."),
        "lasts": Row("how long it flowers", _FIRST + 6, "How long it flowers."),
        "weight": Row("how heavy its seeds are", _FIRST + 7, "How heavy its seeds are."),
        "shades": Row(
            "of its leaves", _FIRST + 8, "A shade of leaves.", ("--shade",), "SHADE", _SHORT_LIST
        ),
        "labels": Row("on its pot", _FIRST + 9, most=Most(WORD, 10), of_queue=True),
        "patience": Row(
            "how long it waits for rain", None, "How long it waits for rain.", of_queue=True
        ),
"""
EDITS = {
    "core/model.py": [
        ('    over: str | None = None\n    """The map', _IN_POLICY),
        ("    generated: bool = False\n", _IN_TASK),
        ("    @property\n    def kind(self)", _IN_TASK),
    ],
    "core/fields.py": [('        "held": Row(', _ROWS.replace("_FIRST", f"{_FIRST}"))],
}
"""All that is to be written, by file: what goes before which lines."""

SAID: dict[str, Any] = {
    "colour": "red", "season": "autumn", "petals": 5, "height": 2.5, "wild": True,
    "harvest": "2027-01-01T00:00:00Z", "lasts": "10m", "weight": "1G", "shades": ["dark", "pale"],
    "labels": {"of": "a rose"}, "patience": "1h",
}  # fmt: skip
NOTHING_SAID: dict[str, Any] = dict.fromkeys(SAID)
KEPT: dict[str, Any] = {
    **SAID, "harvest": 1798761600.0, "lasts": 600.0, "weight": 10**9, "shades": ("dark", "pale"),
    "patience": 3600.0,
}  # fmt: skip
SHOWN = {**SAID, "harvest": "2027-01-01T00:00:00.000Z", "lasts": 600.0, "weight": 10**9,
         "patience": 3600.0}  # fmt: skip
USUAL = {
    "colour": None, "season": "spring", "petals": 7, "height": 1.5, "wild": False, "harvest": None,
    "lasts": 2.0, "weight": None, "shades": (), "labels": None, "patience": None,
}  # fmt: skip


def make_copy(folder: Path) -> Path:
    """A copy of Stayer that has these fields; the folder to import it from."""
    package = folder / "stayer"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(stayer.__file__).parent, package, ignore=ignored)
    for file, edits in EDITS.items():
        text = (package / file).read_text()
        for before, lines in edits:
            assert text.count(before) == 1, f"{file} has not one {before!r}"
            text = text.replace(before, lines + before)
        (package / file).write_text(text)
    return folder


def fields_of(task: Any) -> dict[str, Any]:
    """What a task has of these fields."""
    return {name: getattr(task.policy if name == "patience" else task, name) for name in SAID}


def main(url: str, *, works: bool = True) -> None:
    """Submit, read, list, run and show tasks that have these fields, and some that have not."""
    from stayer.core import codec
    from stayer.core.errors import BadInput
    from stayer.core.model import Filter
    from stayer.core.submit import checks
    from stayer.core.submit.json import parse_submission

    client = stayer.Client(url)
    store = client.store

    def get(id: str) -> Any:
        return store.get([id])[0]

    assert fields_of(get("old")) == USUAL

    queue = client.get_queue("garden")
    handle = queue.submit({"n": 1}, id="rose", **SAID)
    assert fields_of(handle.record) == KEPT
    line = codec.encode({"id": "lily", "queue": "garden", "command": ["true"], **SAID})
    written = checks.new_task(**parse_submission(line, "a line"))
    [lily] = store.submit([written])
    assert fields_of(lily.task) == KEPT
    assert (
        checks.new_task(**parse_submission(codec.encode(checks.submission_json(written)), ""))
        == written
    )
    queue.enqueue(id="grass")
    for id, wanted in {"rose": KEPT, "lily": KEPT, "grass": USUAL}.items():
        assert fields_of(get(id)) == wanted, id
    listed = {task.id: task for task in store.find(Filter(queues=("garden",)), None, 9).tasks}
    assert fields_of(listed["rose"]) == fields_of(listed["lily"]) == KEPT
    later = queue.submit(id="tulip", delay="1h")
    later.edit(**SAID)
    assert fields_of(get("tulip")) == KEPT
    later.edit(**NOTHING_SAID)
    assert fields_of(get("tulip")) == USUAL
    with pytest.raises(BadInput, match="at most 64"):
        queue.submit(**{**SAID, "colour": "r" * 65})
    shop = client.get_queue("shop")
    usual = {"colour": "12", "labels": {"of": "a shop"}, "patience": 60}
    assert shop.set(defaults=usual).defaults == usual
    assert fields_of(shop.submit(id="cactus").record) == {**USUAL, **usual}
    own: dict[str, Any] = {"colour": "red", "labels": {}}
    palm = shop.submit(id="palm", **own).record
    assert fields_of(palm) == {**USUAL, **usual, **own}
    shown = codec.record(listed["rose"])
    assert {name: shown[name] for name in SAID} == SHOWN

    if works:
        _work(client, get)
    client.close()


def _work(client: stayer.Client, get: Callable[[str], Any]) -> None:
    """Take the tasks, and end them."""
    with client.get_listener("garden") as listener:
        taken = {}
        while "rose" not in taken or "grass" not in taken:
            task = listener.listen(timeout="30s")
            assert task is not None
            taken[task.id] = fields_of(task.record)
            with client.get_processor(task) as processor:
                processor.complete("in bloom")
    assert taken["rose"] == KEPT
    assert taken["grass"] == USUAL
    after = get("rose")
    assert (after.state, after.result, fields_of(after)) == ("complete", "in bloom", KEPT)


if __name__ == "__main__":
    main(*sys.argv[1:])
