"""Writes the tables of a task's fields into the documentation (JSON, SQL tables, Python, Redis, how
long each may be, defaults of queues), from `core/fields.py`.

`python docs/field_tables.py` writes them, `--check` only says whether they are up to date.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args

from stayer.client.submit import OPTIONS
from stayer.core.fields import FIELDS, MOST, OF_QUEUE, POLICY, STORED, SUBMISSION, Field, Kind
from stayer.core.limits import UNIT, WORD, Most
from stayer.core.model import Policy
from stayer.stores.redis.record import FIELDS as PACKED
from stayer.stores.sql.rows import cell_kind

DOCS = Path(__file__).parent
END = "<!-- End of what docs/field_tables.py made. -->"

_JSON: dict[Kind, str] = {
    "text": "string", "whole": "whole number", "number": "number", "flag": "true or false",
    "moment": "time", "seconds": "seconds", "bytes": "bytes", "words": "array of strings",
    "variables": "object of strings", "object": "object", "value": "any value", "struct": "object",
    "structs": "array of objects",
}  # fmt: skip
_STRUCTS = {
    "error": "[error](#an-error)",
    "progress": "[progress](#a-progress)",
    "usage": "[usage](#a-usage)",
}
_PYTHON: dict[Kind, str] = {
    "text": "text", "whole": "whole number", "number": "number", "flag": "`True` or `False`",
    "moment": "moment", "seconds": "duration", "bytes": "size", "words": "list",
    "variables": "mapping", "object": "mapping", "struct": "`stayer.Code`",
}  # fmt: skip


def _choices(field: Field) -> str:
    words = [f"`{word}`" for word in get_args(field.type)]
    return " ".join(words) if len(words) > 3 else " or ".join(words)


def record() -> Iterator[str]:
    """The keys of a task in JSON."""
    yield from ("| key | is | what |", "|---|---|---|")
    policy = {field.name: field for field in FIELDS if field.home is Policy}
    for field in [*(each for each in STORED if each.row.shown), *(policy[name] for name in POLICY)]:
        kind = _choices(field) if field.kind == "choice" else _JSON[field.kind]
        kind = _STRUCTS.get(field.name, kind)
        null = " or null" if field.optional else ""
        yield f"| `{field.name}` | {kind}{null} | {field.row.about} |"


def columns() -> Iterator[str]:
    """The columns of a task."""
    yield from ("| column | type | set by | what |", "|---|---|---|---|")
    for field in STORED:
        kind = cell_kind(field)
        if field.kind in ("words", "variables", "object", "struct", "structs"):
            kind += ", JSON"
        yield f"| `{field.name}` | {kind} | {field.set_by} | {field.row.about} |"


def options() -> Iterator[str]:
    """What may be said of a task in Python."""
    yield from ("| option | is | what |", "|---|---|---|")
    for name, field in SUBMISSION.items():
        if name in OPTIONS:
            kind = _choices(field) if field.kind == "choice" else _PYTHON[field.kind]
            yield f"| `{name}` | {kind} | {field.row.about} |"


_REDIS: dict[Kind, str] = {
    "text": "text", "choice": "text", "whole": "number", "number": "number", "flag": "true",
    "moment": "number, epoch seconds", "seconds": "number, seconds", "bytes": "number, bytes",
    "words": "array of texts", "variables": "text, JSON", "object": "text, JSON",
    "struct": "text, JSON", "value": "text, JSON; if it is kept apart, false",
    "structs": "array",
}  # fmt: skip
_REDIS_OWN = {
    "progress": "text: `at` and JSON",
    "usage": "text: `at` and JSON",
    "orders": "array of arrays: number, whether it is a cancel, whether it was acknowledged, JSON",
}
_READ_TASK = """```lua title="task.lua"
local value = redis.call('GET', KEYS[1])
if not value then return 'there is no such task' end
local fields = cmsgpack.unpack(string.sub(value, 9, 8 + struct.unpack('>I4', value, 2)))
local task, number = {}, 0
for name in string.gmatch([[
%s
]], '%%S+') do
  number = number + 1
  if fields[number] then task[name] = fields[number] end
end
return cjson.encode(task)
```"""


def packed() -> Iterator[str]:
    """A script that reads a record of Redis, and what it reads by number."""
    yield _READ_TASK % textwrap.fill(" ".join(PACKED), 100)
    yield from ("", "| number | field | form | what |", "|---|---|---|---|")
    named = {field.row.number: field for field in STORED}
    for number, name in enumerate(PACKED, start=1):
        field = named.get(number)
        if field is None:
            yield f"| {number} | `{name}` | number | that of the event that brought the task |"
            continue
        form = _REDIS_OWN.get(field.name) or _REDIS[field.kind]
        yield f"| {number} | `{name}` | {form} | {field.row.about} |"


_LIMITS = {
    "command": "1,000 words of 64,000; the program 4,096",
    "env": "1,000 variables of 64,000; their names 200",
    "code": "2,000 requirements of together 64,000; each 1,000 without its hashes; `git` 2,000",
    "after": "100,000 ids of 256",
    "notify": "10 hooks of 2,200",
}
"""Of fields about which there is more to say than two numbers."""
_USUAL = {"text": Most(WORD), "moment": Most(UNIT), "seconds": Most(UNIT), "bytes": Most(UNIT)}


def lengths() -> Iterator[str]:
    """How long what is said of a task may be."""
    yield from ("| field of a task | at most |", "|---|---|")
    alike: dict[Most, list[str]] = {}
    for name, most in MOST.items():
        if name not in _LIMITS and most != _USUAL.get(SUBMISSION[name].kind):
            alike.setdefault(most, []).append(f"`{name}`")
    for most, names in alike.items():
        items = "" if most.items is None else f"{most.items:,} of "
        yield f"| {', '.join(names)} | {items}{most.characters:,}{' each' * (len(names) > 1)} |"
    yield from (f"| `{name}` | {said} |" for name, said in _LIMITS.items())
    yield f"| any other text | {WORD:,} |"
    yield f"| a time, a duration or a size that is written as text | {UNIT:,} |"


def of_queue() -> Iterator[str]:
    """What a queue may have a default for."""
    yield from ("| field | what |", "|---|---|")
    for name in OF_QUEUE:
        about = re.sub(r"\]\((?!\w+:|\.\./how-to/)", "](../reference/", SUBMISSION[name].row.about)
        yield f"| `{name}` | {about.replace('](../how-to/', '](')} |"


PAGES: dict[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("reference/json.md", ""): record,
    ("reference/json.md", ": lengths"): lengths,
    ("reference/tables.md", ""): columns,
    ("reference/python.md", ""): options,
    ("reference/redis-keys.md", ""): packed,
    ("how-to/queue-defaults.md", ""): of_queue,
}
"""By the page, and by what its first line says if it has several."""


def with_tables(page: str, text: str) -> str:
    """The text of a page, with its tables as they are now."""
    for (where, which), rows in PAGES.items():
        if where != page:
            continue
        begin = f"<!-- Made by docs/field_tables.py{which}. -->"
        before, found, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not found or not end:
            raise SystemExit(f"{page} lacks the lines {begin} and {END}")
        text = "".join((before, begin, "\n\n", "\n".join(rows()), "\n\n", END, after))
    return text


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with --check compare them."""
    if list(arguments) not in ([], ["--check"]):
        print("usage: python docs/field_tables.py [--check]", file=sys.stderr)
        return 2
    texts = {page: (DOCS / page).read_text(encoding="utf-8") for page, _ in PAGES}
    fresh = {page: with_tables(page, text) for page, text in texts.items()}
    stale = {page: text for page, text in fresh.items() if text != texts[page]}
    for page, text in stale.items():
        if arguments:
            print(f"{page} is not up to date: python docs/field_tables.py", file=sys.stderr)
        else:
            (DOCS / page).write_text(text, encoding="utf-8")
    return bool(stale) if arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
