"""One table of what tasks can be found by.

Name and type of a filter stand in `core.model.Filter`. The row of the same name here says the rest:
what it is, how long it may be, its parameter over HTTP and its option on the command line. From
both follow the checks, the query of `GET /v1/tasks` and of all verbs on many tasks, OpenAPI, the
options of every command that takes filters, and the requests of a store that is a server. One that
`equals` a field needs no more. What another means is said in `stores/sql/find.py` and
`stores/redis/find.py`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from stayer.core import json_match
from stayer.core.limits import CONDITION, ID, PATH, WORD, Most, check_count, check_length
from stayer.core.model import STATES, Filter


class FilterRow(Struct, frozen=True):
    """What the class of a filter does not say of it."""

    about: str
    """Which tasks it means: a sentence without a subject."""
    most: Most | None = None
    """How long it may be; None: it is no text."""
    repeated: Literal["any", "all"] | None = None
    """If it may be given several times: whether a task has to match any of them, or all."""
    parameter: str | None = None
    """What it is called over HTTP, if not by its name."""
    option: tuple[str, ...] = ()
    """What it is called on the command line; empty: it has no option there."""
    metavar: str | None = None
    more: str = ""
    """What else users of HTTP have to know."""
    equals: bool = False
    """Whether the field of the task that has its name is to be equal to it. What any other filter
    means is said in each store, in its `find.py`.
    """

    @property
    def help(self) -> str:
        """What the command line says of it."""
        return f"{self.about}{self._repeats}"

    @property
    def description(self) -> str:
        """What OpenAPI says of it."""
        return f"{self.about}{self._repeats}{self.more}"

    @property
    def _repeats(self) -> str:
        return f" May be repeated, to match {self.repeated}." if self.repeated else ""


_WORD = Most(WORD)
MOMENT = "RFC 3339, epoch seconds, or how long ago (2h)"

FILTERS: dict[str, FilterRow] = {
    "ids": FilterRow("With this id.", Most(ID, 10_000), "any", "id"),
    "prefix": FilterRow("With an id that begins so.", Most(ID)),
    "queues": FilterRow(
        "In this queue.", Most(WORD, 1000), "any", "queue", ("-q", "--queue"), "QUEUE"
    ),
    "states": FilterRow(
        f"In this state: {', '.join(STATES)}; running is reserved or started.",
        repeated="any",
        parameter="state",
        option=("--state",),
        metavar="STATE",
    ),
    "name": FilterRow(
        "With this name, or with a command that begins with this word.",
        Most(PATH),
        option=("--name",),
        metavar="NAME",
    ),
    "owner": FilterRow("Of this owner.", _WORD, option=("--owner",), metavar="OWNER", equals=True),
    "key": FilterRow("With this key.", _WORD, option=("--key",), metavar="KEY", equals=True),
    "unique": FilterRow("With this unique word.", _WORD, equals=True),
    "tags": FilterRow("With this tag.", Most(WORD, 100), "all", "tag", ("--tag",), "TAG"),
    "worker": FilterRow("Held by this worker.", Most(500), equals=True),
    "held": FilterRow("Held, or not."),
    "since": FilterRow(
        "Submitted in the last 2h, or since 20:30, or since 2026-11-15.",
        option=("--since",),
        metavar="TIME",
        more=f" As {MOMENT}.",
    ),
    "until": FilterRow("Submitted before this moment.", more=f" As {MOMENT}."),
    "flow": FilterRow("Of this flow.", _WORD, option=("--flow",), metavar="FLOW", equals=True),
    "fingerprint": FilterRow(
        "Failed in this way: see `stayer failures`.",
        _WORD,
        option=("--fingerprint",),
        metavar="FINGERPRINT",
        equals=True,
    ),
    "search": FilterRow(
        "With these words somewhere in id, name, command, parameters, tags, meta or error.",
        _WORD,
        parameter="q",
        option=("--search",),
        metavar="WORDS",
        more=" A page may be short, or empty, and not be the last.",
    ),
    "meta": FilterRow(
        "With this field of your own.",
        Most(CONDITION, 20),
        "all",
        option=("--meta",),
        metavar="NAME=VALUE",
        more=" As in `team=vision`.",
    ),
    "where": FilterRow(
        "With this in its parameters: source=s3://a, layers[0].size=64.",
        Most(CONDITION, 20),
        "all",
        option=("--where",),
        metavar="PATH=VALUE",
        more=" Looks into every task that the rest leaves over.",
    ),
}
"""By the fields of `Filter`, in the order of `--help`."""

EQUAL = tuple(name for name, row in FILTERS.items() if row.equals)
"""Those that a field of the task has to be equal to."""
PARAMETERS = {row.parameter or name: name for name, row in FILTERS.items()}
"""The parameters over HTTP, and the fields of `Filter` that they set."""
_INTERNAL = frozenset({"has_files"})
"""Asked by upkeep alone."""

if (listed := FILTERS.keys() | _INTERNAL) != set(Filter.__struct_fields__):
    odd = listed ^ set(Filter.__struct_fields__)
    raise LookupError(f"core/filters.py and core.model.Filter differ in {', '.join(sorted(odd))}")


def check_filter(filter: Filter) -> None:
    """BadInput if it asks for what no task can have."""
    for name, row in FILTERS.items():
        value = getattr(filter, name)
        if row.most is None or not value:
            continue
        texts = (value,) if isinstance(value, str) else value
        check_count(name, texts, row.most.items)
        for text in texts:
            check_length(name, text, row.most.characters)
            if name in ("meta", "where"):
                json_match.parse(name, text)
