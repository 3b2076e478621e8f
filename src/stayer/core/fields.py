"""One table of the fields of a task: what its record has, and what a submission may say.

Name, type and default of a field stand in the classes of `core.model` (Task, NewTask, Policy),
where mypy and editors find them. The row of the same name here says the rest: who sets it, whether
it is shown, where it is in a record of Redis, how long it may be, its option on the command line,
and what it is for. From both follow the columns and the row codecs of SQL, the records of Redis,
JSON, OpenAPI, the options of Python and of the command line, and the tables of the reference.
`docs/decisions/0020-one-table-of-fields.md` says why, and how to add one.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from stayer.core.limits import HOOK, ID, PATH, TEXT, UNIT, WORD, Most
from stayer.core.model import NewTask, Policy, Task

Kind = Literal[
    "text", "choice", "whole", "number", "flag", "moment", "seconds", "bytes", "words",
    "variables", "object", "value", "struct", "structs",
]  # fmt: skip
"""What a field holds. Every way to store, show, read or document it is chosen by this; `words` are
texts in a list, `variables` texts by name, an `object` JSON values by name; a `value` is the user's
own.
"""
Setter = Literal["submitter", "options", "flow", "store", "worker"]
"""Who sets a field: whoever submits, by the option of that name, or by several options; the plan of
a flow; the store, when it changes the task; the worker, of what it sees.
"""

Panel = Literal[
    "What to run", "When", "Order and ownership", "Retries", "Limits", "Find and notify"
]  # fmt: skip


class Row(Struct, frozen=True):
    """What the class of a field does not say of it."""

    about: str
    """What it is, for the reference: Markdown that reads on from its name."""
    number: int | None = None
    """Its place in a record of Redis, if it is stored there. Given once and for good: a new field
    takes the next one that is free.
    """
    help: str | None = None
    """Of its option on the command line; None: it has none."""
    option: tuple[str, ...] = ()
    """What that is called, if not `--` and the name."""
    metavar: str | None = None
    """What the help calls its value, if not by its kind."""
    most: Most | None = None
    """How long it may be, if not as long as its kind usually is."""
    json_type: Any = None
    """The type of it in JSON that somebody writes, if not that of its kind."""
    shown: bool = True
    """Whether it is in the public record."""
    fixed: bool = False
    """Whether it stays as it was submitted: `edit` can't change it."""
    of_queue: bool = False
    """Whether its queue may have a default for it."""
    panel: Panel = "What to run"
    """The group of options in which `--help` shows its option."""


_MOST_WHOLE = 2**31
_FACTOR = Annotated[float, Meta(ge=1, le=100)]
_SHORT_LIST = Most(WORD, 100)

_ROWS: dict[Setter, dict[str, Row]] = {
    "submitter": {
        "queue": Row(
            "the queue that it is in",
            7,
            "The queue. Default: the one in the configuration.",
            option=("-q", "--queue"),
            metavar="QUEUE",
            fixed=True,
        ),
        "id": Row(
            "its id, the only one of its kind; it may not begin with `-`, nor be `.` or `..`",
            4,
            "Its id. If there is such a task already, nothing is added.",
            metavar="ID",
            most=Most(ID),
            fixed=True,
        ),
        "name": Row(
            "the function or class that it runs",
            11,
            "The function or class to run.",
            metavar="NAME",
        ),
        "command": Row("the program that it runs, with its arguments", 22, most=Most(TEXT, 1000)),
        "parameters": Row(
            "what it is to work on",
            5,
            "Its parameters: JSON, - to read it from stdin, or @ and a file.",
            option=("--data",),
            metavar="JSON|-|@FILE",
        ),
        "priority": Row(
            "higher goes first",
            18,
            "Higher goes first. Default: 0.",
            json_type=Annotated[int, Meta(ge=-_MOST_WHOLE, lt=_MOST_WHOLE)],
            panel="Order and ownership",
        ),
        "delay": Row(
            "how long after its submission it may start",
            None,
            "Start it in 10m, 2h, 1d …",
            panel="When",
        ),
        "eta": Row(
            "when it may start", 20, "Start it at 20:30, 2026-11-15T20:30:00Z …", panel="When"
        ),
        "expire": Row(
            "how long after its submission it [expires](../how-to/let-tasks-expire.md), if it has "
            "not been started",
            None,
            "Fail it if it has not started within 10m, 2h, 1d …",
            panel="When",
        ),
        "start_before": Row(
            "when it [expires](../how-to/let-tasks-expire.md), if it has not been started",
            36,
            "Fail it if it has not started by 20:30, 2026-11-15T20:30:00Z …",
            panel="When",
        ),
        "after": Row(
            "the tasks that must be complete before it, and whose results are its inputs",
            None,
            "Run it after this task is complete, with its result as input. May be repeated.",
            metavar="ID",
            most=Most(ID, 100_000),
            fixed=True,
            panel="When",
        ),
        "when_failed": Row(
            "what becomes of it when a task that it is to run after fails",
            None,
            "What to do with it if a task of --after fails. Default: cancel it.",
            fixed=True,
            panel="When",
        ),
        "near": Row(
            "the one of the tasks that it runs after "
            "[on whose node](../how-to/flows.md#near-its-data) it is to run, if that can be",
            None,
            "Prefer the node that ran this task, one of --after.",
            metavar="ID",
            most=Most(ID),
            fixed=True,
            panel="When",
        ),
        "near_wait": Row(
            "how long it waits for the node of `near`; a minute, if nothing is said",
            None,
            "How long to wait for that node before another may take it. Default: 1m.",
            fixed=True,
            panel="When",
        ),
        "cwd": Row(
            "where its command runs",
            23,
            "The directory to run the command in. Default: this one; over HTTP, the one that its "
            "worker was started in.",
            metavar="DIR",
            most=Most(PATH),
        ),
        "env": Row(
            "variables for its process",
            24,
            "Set a variable for the command; NAME alone takes its value here. May be repeated.",
            metavar="NAME[=VALUE]",
            most=Most(TEXT, 1000),
        ),
        "code": Row(
            "what is [installed for it](../how-to/run-code-from-git-and-pypi.md) before it runs: "
            "`requirements` (a list, or the text of a requirements file or lock), `python` (a "
            "version or a range), `git` (`URL@REF#FOLDER`), `files` that "
            "were sent before (`name`, `sha256`, `size`, `executable`); or the `image` of a "
            "container that its command runs in",
            51,
            most=Most(TEXT, 2000),
            of_queue=True,
        ),
        "tags": Row(
            "words to find it by",
            21,
            "A word to find it by. May be repeated.",
            option=("--tag",),
            metavar="TAG",
            most=_SHORT_LIST,
            panel="Find and notify",
        ),
        "meta": Row(
            "[fields of your own](../how-to/fields-of-your-own.md), to find it by, which the task "
            "may set too",
            54,
            "A field of your own, to find it by: JSON, or else text. May be repeated.",
            metavar="NAME=VALUE",
            panel="Find and notify",
        ),
        "owner": Row(
            "whose it is",
            10,
            "Whose task it is. Default: yours.",
            metavar="OWNER",
            fixed=True,
            panel="Order and ownership",
        ),
        "key": Row(
            "whose work it is: how many of one key run at once can be "
            "[limited](../how-to/limits.md)",
            41,
            "What it belongs to: a user, a customer, a license. Queues can limit how many tasks of "
            "one key run at once.",
            metavar="KEY",
            fixed=True,
            panel="Order and ownership",
        ),
        "unique": Row(
            "a word that [one task at a time](../how-to/unique.md) of its queue has",
            42,
            "Add it only if no unfinished task of the queue has the same word.",
            metavar="WORD",
            fixed=True,
            panel="Order and ownership",
        ),
        "unique_while": Row(
            "how long it keeps its unique word to itself: until it is taken, or until it has ended",
            43,
            "How long --unique keeps others out: while it waits, or until it has ended (the "
            "default).",
            fixed=True,
            panel="Order and ownership",
        ),
        "unique_for": Row(
            "how long it keeps its unique word to itself after its end",
            44,
            "Keep others out for this long after its end, too.",
            fixed=True,
            panel="Order and ownership",
        ),
        "notify": Row(
            "the hooks that are told [what becomes of it](../how-to/notifications-and-webhooks.md)"
            ", each with its words in front: `ended:mail`",
            45,
            "Notify this hook (of the workers' stayer.toml) or URL when it ends. "
            "failed,expired:HOOK: only then. late:HOOK, no_progress=30m:HOOK: while it runs. May "
            "be repeated.",
            metavar="HOOK",
            most=Most(HOOK, 10),
            panel="Find and notify",
        ),
        "held": Row(
            "true: not to be taken until it is released",
            19,
            "Don't run it until it is released.",
            option=("--hold",),
            fixed=True,
            panel="When",
        ),
        "retries": Row(
            "how often it may be run again after a failure",
            None,
            "How often to run it again if it fails.",
            json_type=Annotated[int, Meta(ge=0, lt=_MOST_WHOLE)],
            of_queue=True,
            panel="Retries",
        ),
        "retry_wait": Row(
            "how long it waits before the first retry; 10 s, if only `retries` is given",
            None,
            "Wait this long before the first retry, then twice as long each time, up to 1h. "
            "Default: 10s.",
            of_queue=True,
            panel="Retries",
        ),
        "retry_backoff": Row(
            "the factor by which each further wait is longer (2, if nothing is said)",
            json_type=_FACTOR,
            of_queue=True,
        ),
        "retry_cap": Row(
            "the longest that it waits before a retry (1 h, if nothing is said)", of_queue=True
        ),
        "retry_on": Row(
            "endings and types of errors after which alone it is retried",
            None,
            "Retry only after this ending or error: oom, timeout, OSError … May be repeated.",
            metavar="PATTERN",
            most=_SHORT_LIST,
            of_queue=True,
            panel="Retries",
        ),
        "give_up_on": Row(
            "endings and types of errors after which it is never retried",
            None,
            "Never retry after this ending or error. May be repeated.",
            metavar="PATTERN",
            most=_SHORT_LIST,
            of_queue=True,
            panel="Retries",
        ),
        "deadline": Row(
            "how long after its submission it has to "
            "[have ended](../how-to/let-tasks-expire.md#a-deadline-over-all-retries), with all its "
            "retries",
            None,
            "End it after 10m, 2h, 1d …, with all its retries: it fails then.",
            of_queue=True,
            panel="Limits",
        ),
        "time_limit": Row(
            "how long it may run; null: as its worker says, 0 (by `stayer set`): any time",
            None,
            "End it if it runs longer.",
            of_queue=True,
            panel="Limits",
        ),
        "silence_limit": Row(
            "how long it may give no sign of life; null and 0 as with `time_limit`",
            None,
            "End it if it neither reports nor prints anything for this long.",
            of_queue=True,
            panel="Limits",
        ),
        "memory_limit": Row(
            "how much memory its processes may use together; null and 0 as with `time_limit`",
            None,
            "End it if its processes together use more.",
            of_queue=True,
            panel="Limits",
        ),
        "time_growth": Row(
            "the factor by which `time_limit` "
            "[grows](../how-to/retry-what-failed.md#with-more-time-or-memory) for the try "
            "after one that exceeded it (1: not)",
            None,
            "After a timeout, multiply the time limit by this. Default: 1.",
            json_type=_FACTOR,
            panel="Retries",
        ),
        "time_most": Row(
            "the longest that `time_limit` gets so; null: without end",
            None,
            "The longest that --time-growth makes it.",
            panel="Retries",
        ),
        "memory_growth": Row(
            "the factor by which `memory_limit` grows in the same way",
            None,
            "After it used too much memory, multiply the memory limit by this. Default: 1.",
            json_type=_FACTOR,
            panel="Retries",
        ),
        "memory_most": Row(
            "the most that `memory_limit` gets so; null: without end",
            None,
            "The most that --memory-growth makes it.",
            panel="Retries",
        ),
        "grace": Row(
            "how long it has between the first TERM and KILL; null: as its worker says",
            None,
            "How long it may take to stop before it is killed.",
            of_queue=True,
            panel="Limits",
        ),
        "fence": Row(
            "what happens to it when its worker loses its lease; null: as its worker says",
            None,
            "What to do with it when its worker's lease is over and the store can't be reached.",
            panel="Limits",
        ),
        "cloned_from": Row(
            "the task of which it is a "
            "[changed copy](../how-to/retry-what-failed.md#run-it-again-with-changes)",
            50,
            most=Most(ID),
            fixed=True,
        ),
        "submitted_by": Row(
            "[who submitted it](../how-to/submit-over-http.md#who-submitted-it): user, host, "
            "program and process, such as `ann@desk train.py[4711]`; over HTTP the token and the "
            "address, such as `token ci at 10.0.0.7`",
            55,
            fixed=True,
        ),
        "source_commit": Row(
            "the git commit of the folder that its command was "
            "[submitted from](../how-to/run-code-from-git-and-pypi.md#where-a-command-came-from), "
            "with `-dirty` behind if files were changed",
            56,
            fixed=True,
        ),
    },
    "options": {
        "policy": Row(
            'what the submitter decided about its life, such as `{"retries": 3}`; no defaults',
            25,
            shown=False,
        ),
    },
    "flow": {
        "flow": Row("the flow that it belongs to", 37),
        "part": Row("its name in its flow; the tasks of a map have one in common", 38),
        "behind": Row(
            "the tasks that must only have ended, in whatever way, before it", shown=False
        ),
        "policy.over": Row("the map of which one task is its input", shown=False),
    },
    "store": {
        "created": Row("when it was submitted", 2),
        "finish_before": Row(
            "when it is ended, if it has not ended: its `deadline` as a moment", 58
        ),
        "updated": Row(
            "when the store last changed it; of what has ended, when the store heard of it", 1
        ),
        "state": Row("one of the [states](states.md)", 8),
        "attempt": Row("the number of the last try; 0 before the first", 9),
        "failures": Row("how often it failed", 26),
        "interruptions": Row("how often it was stopped or lost through no fault of its own", 27),
        "losses": Row("how often in a row its worker died under it", 28, shown=False),
        "ending": Row("how the last attempt ended", 14),
        "worker": Row("the worker that runs it, or ran it last", 12),
        "node": Row("the node that it runs on, or ran on last", 13),
        "orders": Row(
            "what was asked of the running task and is not done yet: `number`, `verb`, "
            "`arguments`, `acknowledged`. A `cancel` stays until the task has ended",
            32,
        ),
        "last_order": Row("the number of the last request", 29, shown=False),
        "returned_from": Row(
            "the worker and attempt that it was taken from as lost", 33, shown=False
        ),
        "upstreams": Row("how many tasks it was to wait for", 39),
        "dependents": Row("others wait, or have waited, for it", 40, shown=False),
        "near_node": Row("the node that has it for itself while it is pending", 47, shown=False),
        "near_until": Row("until when that node has it for itself", 48, shown=False),
        "fingerprint": Row(
            "while it is failed: the same for all that "
            "[failed in the same way](../how-to/see-what-failed.md)",
            49,
        ),
        "pinned": Row(
            "what its `code` has become at its first attempt, the same for all attempts: `python`, "
            "the sha256 of the `lock`, the git `commit`, the digest of the `image`; and the `git` "
            "repository, if [its worker's default](../how-to/run-code-from-git-and-pypi.md"
            "#code-for-tasks-that-ask-for-none) named it",
            52,
        ),
        "lock": Row("the text of that lock", 53, shown=False),
        "policy.losses": Row("how often in a row its worker may die under it", shown=False),
    },
    "worker": {
        "pid": Row("its process on that node", 17),
        "started_at": Row(
            "when its last attempt began on its node, also if the store heard of it later", 16
        ),
        "finished_at": Row(
            "when its last attempt ended on its node, also if the store heard of it later", 15
        ),
        "result": Row("what it returned", 6),
        "error": Row("what went wrong", 30),
        "progress": Row("how far it has come", 31),
        "usage": Row("what its last attempt has used", 35),
        "paused": Row("true: its process stands still because somebody asked for it", 34),
        "metrics": Row(
            "what it [reports of itself](../how-to/metrics-and-steps.md), by name: `last`, `min`, "
            "`max`, `count`, and the `x` of the last; of the last attempt that reported any",
            57,
        ),
        "checkpoint_at": Row("when it last saved its work, in whichever attempt; null: never", 46),
    },
}
"""By who sets them. Those of the submitter are in the order in which `--help` shows them."""
SEQ = 3
"""The place in a record of Redis where no field is, but the number of the task's first event."""
_NO_FIELDS = frozenset(("generated", "said"))
"""What a NewTask has only on its way to the store."""


class Field(Struct, frozen=True, kw_only=True):
    """A field: what its class and its row say together."""

    name: str
    kind: Kind
    type: Any
    """As its class has it, without None."""
    optional: bool
    """It may be None."""
    default: Any
    """What it is unless somebody says otherwise; msgspec.NODEFAULT if it has to be said."""
    home: type[Struct]
    """Policy, Task, or NewTask if it is gone once the task is submitted."""
    set_by: Setter
    row: Row

    @property
    def is_submitted(self) -> bool:
        """Whether a NewTask brings it along as it is."""
        return self.home is not Policy and self.name in NewTask.__struct_fields__

    @property
    def most(self) -> Most | None:
        """How long it may be, if it is text or may be written so."""
        if self.row.most is not None:
            return self.row.most
        if self.kind in ("moment", "seconds", "bytes"):
            return Most(UNIT)
        return Most(WORD) if self.kind == "text" else None

    @property
    def json_type(self) -> Any:
        """Its type in JSON that somebody writes: times and sizes may be text."""
        if self.row.json_type is not None:
            return self.row.json_type
        return _WRITTEN.get(self.kind, self.type)


_WRITTEN: dict[Kind, Any] = {
    "moment": float | str,
    "seconds": float | str,
    "bytes": int | str,
}
_PLAIN: dict[Any, Kind] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
    Any: "value",
    tuple[str, ...]: "words",
    dict[str, str]: "variables",
    dict[str, Any]: "object",
}


def _kind(hint: Any) -> Kind:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if get_origin(hint) is Annotated:
        kind: Kind = hint.__metadata__[0]
        return kind
    if get_origin(hint) is Literal:
        return "choice"
    return "structs" if get_origin(hint) is tuple else "struct"


def _fields() -> Iterator[Field]:
    """Return every field once; LookupError if a class and the table do not have the same ones."""
    declared: dict[type[Struct], dict[str, Any]] = {
        home: {found.name: found for found in msgspec.structs.fields(home)}
        for home in (Task, NewTask, Policy)
    }
    missing = {
        name
        for home, named in declared.items()
        for name in named
        if not any(_key(home, name) in rows for rows in _ROWS.values())
    } - _NO_FIELDS
    if missing:
        raise LookupError(f"core/fields.py has no row for {', '.join(sorted(missing))}")
    for setter, rows in _ROWS.items():
        for key, row in rows.items():
            home, name = _home(key, declared)
            found = declared[home][name]
            kinds = [each for each in get_args(found.type) if each is not NoneType]
            optional = len(kinds) < len(get_args(found.type))
            hint = kinds[0] if optional else found.type
            if (home is Task) != (row.number is not None):
                raise LookupError(
                    f"core/fields.py: {key} is stored by number if it is in Task: the next one "
                    f"that is free is {_free_number()}"
                )
            if row.of_queue and home is Task and not (optional and found.default is None):
                raise LookupError(
                    f"core/fields.py: {key} may have a default of its queue if None is its own: "
                    "else nobody can tell what was not said"
                )
            if setter == "submitter" and home is Task and name not in declared[NewTask]:
                raise LookupError(f"core/fields.py: {key} may be submitted: NewTask has to have it")
            if hint is bool and found.default is not False:
                raise LookupError(f"core/fields.py: {key} is to be false unless somebody says so")
            yield Field(
                name=name, kind=_kind(hint), type=hint, optional=optional, default=found.default,
                home=home, set_by=setter, row=row,
            )  # fmt: skip
    _check_numbers()


def _check_numbers() -> None:
    """LookupError if two fields have one place in a record, or none has a place in between."""
    named = {SEQ: "seq"}
    for rows in _ROWS.values():
        for key, row in rows.items():
            if row.number in named:
                raise LookupError(
                    f"core/fields.py: {named[row.number]} and {key} both have number {row.number}: "
                    f"the next one that is free is {_free_number()}"
                )
            if row.number is not None:
                named[row.number] = key
    if gaps := set(range(1, max(named))) - set(named):
        raise LookupError(f"core/fields.py: no field has number {min(gaps)}: leave none out")


def _free_number() -> int:
    return 1 + max(row.number or 0 for rows in _ROWS.values() for row in rows.values())


def _key(home: type[Struct], name: str) -> str:
    return f"policy.{name}" if home is Policy and name in ("losses", "over") else name


def _home(key: str, declared: dict[type[Struct], dict[str, Any]]) -> tuple[type[Struct], str]:
    name = key.removeprefix("policy.")
    if name == key:
        for home in (Task, NewTask):
            if name in declared[home]:
                return home, name
    if name not in declared[Policy]:
        raise LookupError(f"core/fields.py: no class of core/model.py has a field {name}")
    return Policy, name


FIELDS = tuple(_fields())
SUBMISSION = {field.name: field for field in FIELDS if field.set_by == "submitter"}
"""What a submission may say, in the order of `--help`."""
EDITABLE = tuple(name for name, field in SUBMISSION.items() if not field.row.fixed)
"""What of it can be changed while the task waits, or when it is retried."""
OF_QUEUE = tuple(name for name, field in SUBMISSION.items() if field.row.of_queue)
"""What a queue may have a default for."""
STORED = tuple(
    field
    for name in Task.__struct_fields__
    for field in FIELDS
    if field.home is Task and field.name == name
)
"""The fields of a Task, in its order."""
RECORD = tuple(field.name for field in STORED if field.row.shown)
"""What is shown of a Task …"""
POLICY = tuple(
    field.name
    for name in Policy.__struct_fields__
    for field in FIELDS
    if field.home is Policy and field.name == name and field.row.shown
)
"""… and beside it of its Policy, in the public record."""
MOST = {name: most for name, field in SUBMISSION.items() if (most := field.most) is not None}
"""How long the texts and lists of a submission may be."""


def field_names(*kinds: Kind) -> tuple[str, ...]:
    """Fields of these kinds that are shown, or may be submitted."""
    return tuple(
        field.name
        for field in FIELDS
        if field.kind in kinds and (field.row.shown or field.set_by == "submitter")
    )
