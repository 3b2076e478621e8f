"""What a table of tasks can show in a column: what `ls -o` names, and what it shows by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from shlex import join

from rich.table import Table

from stayer.cli.table_layout import Column, fit_table
from stayer.cli.tables import cell, console
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.fault_text import fault_line
from stayer.core.fields import POLICY, RECORD
from stayer.core.json_match import look_up, parse_path
from stayer.core.meta import describe
from stayer.core.model import FINISHED, JSON, Task, Value
from stayer.core.units import format_duration

_LONGEST = 100
"""How many characters of a value a cell has at most."""
_OWN = ("args", "command_line", "error", "duration", "kind")
COLUMNS = (*RECORD, *POLICY, *(name for name in _OWN if name not in RECORD))
"""What `-o` may name: the fields of a record, and some that follow from them."""
_LOOKED_INTO = ("meta", "parameters", "result")
"""What may have a path behind it: `meta.team`, `parameters.layers[0].size`."""


def arguments(task: Task) -> str:
    """Say what tells it from others of its kind: the arguments of its command, else parameters."""
    if task.command is None:
        return shorten(brief_value(task.parameters))
    known = task.kind.split()
    rest = list(task.command)
    while known and rest and rest[0].rstrip("/").rpartition("/")[2] == known[0]:
        known.pop(0)
        rest.pop(0)
    return shorten(join(rest))


def brief_value(value: Value) -> str:
    """Write parameters or a result on one line: an object as `lr=0.1 seed=3`."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict):
        return " ".join(f"{name}={_brief(each)}" for name, each in value.items())
    return _brief(value)


def _brief(value: JSON) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else codec.encode(value)


def shorten(text: str) -> str:
    """Cut what is too long for a cell."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def parse_columns(written: str) -> list[str]:
    """Read `id,state,args`; raises BadInput for one that there is not."""
    names = [_column_name(name.strip()) for name in written.split(",") if name.strip()]
    for name in names:
        if name not in COLUMNS and "." not in name:
            from difflib import get_close_matches

            near = get_close_matches(name, COLUMNS, 3)
            hint = (
                f"do you mean {' or '.join(near)}?" if near else f"there are {', '.join(COLUMNS)}"
            )
            raise BadInput(f"-o {name}: there is no such column: {hint}")
    if not names:
        raise BadInput("-o: name at least one column, such as id,state,args,result")
    return names


def _column_name(written: str) -> str:
    field, dot, path = written.partition(".")
    field = field.lower().replace("-", "_")
    if not dot:
        return field
    if field not in _LOOKED_INTO:
        raise BadInput(
            f"-o {written}: there is nothing inside {field}: use .NAME with meta, "
            "parameters or result"
        )
    parse_path(path)
    return f"{field}.{path}"


_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""In a template: a brace that is meant as one, what stands for a value, or a stray brace."""


def parse_template(written: str) -> Callable[[Task], str]:
    """Read `{id};{progress.message}` and return what fills it in; raises BadInput for what there is
    not. Values are whole, for programs to read: text as it is, the rest as JSON, nothing for null.
    """
    parts: list[str | Callable[[Task, dict[str, JSON]], Value]] = []
    end = 0
    for place in _PLACE.finditer(written):
        parts.append(written[end : place.start()])
        end = place.end()
        if place[0] in ("{{", "}}"):
            parts.append(place[0][0])
        elif place[1] is None:
            raise BadInput(f"-o {written}: a brace is open: write {{{{ and }}}} for braces")
        else:
            parts.append(_inserted(place[1].strip()))
    parts.append(written[end:])

    def fill(task: Task) -> str:
        record = codec.record(task)
        return "".join(
            each if isinstance(each, str) else _whole(each(task, record)) for each in parts
        )

    return fill


def _inserted(written: str) -> Callable[[Task, dict[str, JSON]], Value]:
    """Return what reads this of a task: a column, or what is inside one."""
    name, dot, path = written.partition(".")
    [field] = parse_columns(name) if name else [""]
    if not field:
        raise BadInput(f"-o {{{written}}}: name a field, such as {{id}} or {{progress.message}}")
    steps = parse_path(path) if dot else ()

    def read(task: Task, record: dict[str, JSON]) -> Value:
        if field == "error" and not dot:
            return fault_line(task.error) if task.error else None
        if field == "command_line":
            return join(task.command or ())
        if field not in record:
            return _text(task, record, field)
        try:
            return look_up(record[field], steps)
        except LookupError:
            return None

    return read


def _whole(value: Value) -> str:
    if value is None:
        return ""
    assert not isinstance(value, bytes)  # a record is JSON
    return value if isinstance(value, str) else codec.encode(value)


def chosen_table(tasks: Sequence[Task], names: Sequence[str]) -> Table:
    """Make a table of these columns."""
    columns = [
        Column(_heading(name), least=None if name in ("id", "state") else 8) for name in names
    ]
    rows = []
    for task in tasks:
        record = codec.record(task)
        rows.append([cell(_text(task, record, name)) for name in names])
    return fit_table(columns, rows, console().width)


def _heading(name: str) -> str:
    field, dot, path = name.partition(".")
    return path if dot else field.upper()


def _text(task: Task, record: dict[str, JSON], name: str) -> str:
    field, dot, path = name.partition(".")
    if dot:
        try:
            return shorten(brief_value(look_up(getattr(task, field), parse_path(path))))
        except LookupError:
            return ""
    match name:
        case "args":
            return arguments(task)
        case "kind":
            return task.kind
        case "command" | "command_line":
            return shorten(join(task.command or ()))
        case "error":
            return shorten(fault_line(task.error)) if task.error else ""
        case "duration":
            ended = task.state in FINISHED and task.started_at and task.finished_at
            return format_duration(task.finished_at - task.started_at) if ended else ""  # type: ignore[operator]
        case "parameters":
            return shorten(brief_value(task.parameters))
        case "meta":
            return shorten(describe(task.meta or {}))
        case "result":
            return shorten(brief_value(task.result))
        case _:
            return _field(record[name])


def _field(value: JSON) -> str:
    if value is None or value == [] or value is False:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(map(str, value))
    return shorten(_brief(value))
