"""What databases that speak SQL say in different words, and the statements in the words of one.

`statements.sql` is for all of them. What differs is a macro in braces there, which a `Dialect`
expands once, when the statements are loaded:

| macro | stands for |
|---|---|
| `{in texts ?1}`, `{in numbers ?1}` | is one of a list: one parameter (`Transaction.array`) |
| `{from texts ?1 name}` | such a list as a table of that name with a column `value` |
| `{contains column value}` | the JSON array in a column has this value |
| `{has column ?}` | a text, or `column.member` of a JSON object, has this in it, large or small |
| `{json column path text number}` | the JSON in a column may have this at that path |
| `{first column}` | the first value of the JSON array in a column |
| `{yes}`, `{no}` | booleans |
| `{same}` | is equal, and null is equal to null |
| `{greatest}`, `{least}` | functions of several values (which are not null) |
| `{whole number}` | a number without its fraction |
| `{upsert columns}` … `{excluded column}` | the row is there: change it; what it was to be |
| `{or nothing columns}` | the row is there: leave it |
| `{returning columns}` | what an UPDATE answers, of columns that it does not change |
| `{join in order}` | a join whose first table is to be read first |
| `{along primary key}`, `{along index}` | behind a table: it is read along just this index |
| `{characters column}` | how many characters a text has |
| `{lock}`, `{lock alias}` | wait until nobody else changes these rows, and keep them so |
| `{claim}`, `{claim alias}` | the same, but pass by what somebody else has locked |
| `{counted queues}` | `stayer_queues` with its counters added up |

Any other word stands for columns (`rows.py`) or for the statement of that name, which may be a part
of others: where there are no partial indexes, `{held_by}` is a column that stands in for one. A
dialect's own statement takes the place of the shared one of its name, also where that is a part.

Names of tables begin with `stayer_`, for which a store may have a prefix of its own
(`table_names.py`). A statement that claims is there a second time, for those who only look, as
`NAME unclaimed`; a dialect's own that claims in another way leaves that of the shared one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from stayer.core.filters import EQUAL
from stayer.stores.sql.notices import COLUMNS as NOTICE_COLUMNS
from stayer.stores.sql.rows import (
    FIELD_COLUMNS,
    FIELD_VALUES,
    NEW_COLUMNS,
    NEW_VALUES,
    SCHEDULE_COLUMNS,
    TASK_COLUMNS,
    column,
)
from stayer.stores.sql.table_names import DEFAULT_PREFIX, with_prefix
from stayer.stores.sql.transaction import UNCLAIMED, Cell, Composed, Named

_HERE = Path(__file__).parent
_SHARED = tuple(_HERE / name for name in ("statements.sql", "notices.sql", "move.sql"))
_MACRO = re.compile(r"\{([^{}]+)\}")
_CLAIM = re.compile(r"\{claim[^{}]*\}")
_PARAMETER = re.compile(r"\?(\d*)")
_GAPS = ("where", "sets")
_COLUMNS = {
    "task": TASK_COLUMNS,
    "new": NEW_COLUMNS,
    "new_values": NEW_VALUES,
    "schedule": SCHEDULE_COLUMNS,
    "notice": NOTICE_COLUMNS,
    "fields": FIELD_COLUMNS,
    "field_values": FIELD_VALUES,
}
_OWN = {
    "count": "how many more tasks are in each of STATES (?1 to ?8), whether somebody should look "
    "(?9), the queue (?10), which is made if it is not there",
    "event": "number of the last id, at, ids (JSON), queue, event, attempt, worker, note: a row of "
    "events; who watches may get another number, later (Database.number_events)",
    "event.old": "number: deletes rows of events before it, unless number_events does that",
    "reserve.next_of_all": "queue, lanes, now, limit: as reserve.next, the best of several lanes; "
    "claims them",
    "submit.holders": "now, queues, unique words (of one length): {task} of those that hold these",
    "watch": "since, limit: number, at, id, queue, event, attempt, worker, note, a row an id, in "
    "the order of the numbers",
}
"""Statements that every database has to bring, for there is no way to say them for all: their
parameters, and what they answer or do …"""
_OWN_IF = {
    "shares_settings": {
        "queue.share": "queues: waits for whoever keeps one of them, and keeps those out",
        "queue.keep": "queue: waits for those who share it, and keeps all others out",
    },
    "locks_words": {
        "unique.lock": "queues, unique words (of one length): nobody else may claim these",
        "unique.lock_of": "id: so with the unique word of this task, if it is there and has one",
    },
}
"""… and those that it has to bring where its dialect says that it has them."""
_encode = msgspec.json.Encoder().encode
_Macro: TypeAlias = Callable[[str], str]


class Dialect(ABC):
    """The words of one database. What is not abstract is standard SQL, or near to it."""

    yes = "true"
    no = "false"
    same = "IS NOT DISTINCT FROM"
    greatest = "greatest"
    least = "least"
    join_in_order = "JOIN"
    characters = "char_length"
    """The function of that. `length` is used of bytes, too."""
    counted_queues = "stayer_queues"
    lock = "FOR UPDATE"
    """Empty: there is one writer at a time, so nothing changes meanwhile."""
    claim = "FOR UPDATE SKIP LOCKED"
    """Empty as well then."""
    words: frozenset[str] = frozenset()
    """Names in our SQL that mean something in this one's: quoted wherever they stand. (In our SQL
    such words are written large; `"limit"` and others, which mean something in many, are quoted.)
    """
    counts_what_runs = False
    """Whether the statement `reserve.queue` counts the tasks themselves. Else it goes by counters,
    and what the transaction has done to tasks and not written there yet is added."""
    shares_settings = False
    """Whether there are the statements `queue.share` and `queue.keep`, by which those who take
    tasks and those who set limits keep out of each other's way. Else a queue's row is locked."""
    locks_words = False
    """Whether there are the statements `unique.lock` and `unique.lock_of`, which lock single unique
    words. Else the queue's row is locked."""

    def value_cell(self, packed: str | bytes | None) -> Cell:
        """Parameters or a result, packed, as their column holds them: text, or bytes that are no
        text. Where it is a column of text, `rows.as_text`.
        """
        return packed

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """A parameter, counted from 1. The same number may come several times."""

    @abstractmethod
    def array(self, values: Iterable[str | int]) -> Cell:
        """A list as one parameter."""

    @abstractmethod
    def in_list(self, kind: str, parameter: str) -> str:
        """`{in kind parameter}`."""

    @abstractmethod
    def from_list(self, kind: str, parameter: str, name: str) -> str:
        """`{from kind parameter name}`."""

    @abstractmethod
    def contains(self, column: str, value: str) -> str:
        """`{contains column value}`."""

    @abstractmethod
    def first(self, column: str) -> str:
        """`{first column}`."""

    @abstractmethod
    def has(self, text: str, word: str) -> str:
        """`{has column word}`, where the text is what the column holds, or a member of that."""

    @abstractmethod
    def member(self, column: str, name: str) -> str:
        """The text of this name in the JSON object in a column."""

    @abstractmethod
    def json(self, column: str, path: str, text: str, number: str) -> str:
        """`{json column path text number}`: may hold for more, since those that are found are
        looked at again, but never for less. `parameters` may be compressed, or no JSON at all.
        """

    def json_path(self, path: Sequence[str | int]) -> Cell:
        """A path into a JSON value as a parameter of that."""
        return "$" + "".join(
            f"[{step}]" if isinstance(step, int) else f".{_encode(step).decode()}" for step in path
        )

    def whole(self, number: str) -> str:
        """`{whole number}`."""
        return f"floor({number})"

    def along(self, index: str) -> str:
        """`{along index}`: nothing, where the planner finds it, or can't be told."""
        return ""

    def upsert(self, columns: str) -> str:
        """`{upsert columns}`: assignments follow."""
        return f"ON CONFLICT ({columns}) DO UPDATE SET"

    def excluded(self, column: str) -> str:
        """`{excluded column}`."""
        return f"excluded.{column}"

    def or_nothing(self, columns: str) -> str:
        """`{or nothing columns}`."""
        return f"ON CONFLICT ({columns}) DO NOTHING"

    def returning(self, columns: str) -> str:
        """`{returning columns}`."""
        return f"RETURNING {columns}"

    def locked(self, clause: str, alias: str) -> str:
        """`{lock alias}` or `{claim alias}`, where the clause is not empty."""
        return clause.replace("UPDATE", f"UPDATE OF {alias}") if alias else clause

    def _has(self, rest: str) -> str:
        where, word = rest.split()
        column, _, name = where.partition(".")
        return self.has(self.member(column, name) if name else column, word)

    def finished(self, text: str) -> str:
        """A statement whose macros are expanded, as it is read here: the last word over what is
        said in another order, or by another word than any macro stands for.
        """
        return quoted(text, self.words)

    def macros(self) -> dict[str, _Macro]:
        """Each macro by its name; it is given what follows in the braces."""

        def word(text: str) -> _Macro:
            return lambda _: text

        return {
            "in": lambda rest: self.in_list(*rest.split()),
            "from": lambda rest: self.from_list(*rest.split()),
            "contains": lambda rest: self.contains(*rest.split()),
            "first": self.first,
            "has": self._has,
            "json": lambda rest: self.json(*rest.split()),
            "yes": word(self.yes),
            "no": word(self.no),
            "same": word(self.same),
            "greatest": word(self.greatest),
            "least": word(self.least),
            "whole": self.whole,
            "upsert": self.upsert,
            "excluded": self.excluded,
            "or": lambda rest: self.or_nothing(rest.removeprefix("nothing ")),
            "returning": self.returning,
            "join": word(self.join_in_order),
            "along": self.along,
            "characters": lambda column: f"{self.characters}({column})",
            "lock": lambda alias: self.locked(self.lock, alias),
            "claim": lambda alias: self.locked(self.claim, alias),
            "counted": word(self.counted_queues),
        }


class Statements(dict[Named, str]):
    """The statements of a dialect. Those that are composed are made when they are first used."""

    def __init__(
        self,
        dialect: Dialect,
        columns: Mapping[str, str],
        *own: Path,
        prefix: str = DEFAULT_PREFIX,
    ) -> None:
        texts = {f"find.{name}": f"{column(name)} = ?" for name in EQUAL}
        unclaimed: dict[str, str] = {}
        for path in (*_SHARED, *own):
            loaded = load(path)
            texts |= loaded
            unclaimed |= {
                name + UNCLAIMED: _CLAIM.sub("", text)
                for name, text in loaded.items()
                if _CLAIM.search(text)
            }
        _check_own(dialect, texts)
        self._dialect = dialect
        self._macros = dialect.macros()
        self._prefix = prefix
        self._texts = {**texts, **_COLUMNS, **columns}
        super().__init__()
        for name, text in {**unclaimed, **texts}.items():
            self[name] = self._numbered(self._expanded(text, name))

    def __missing__(self, key: Named) -> str:
        if not isinstance(key, Composed):
            raise KeyError(key)
        conditions = " AND ".join(self._texts[name] for name in key.conditions)
        sets = ", ".join(
            self._texts.get(f"set.{name}", f"{column(name)} = ?") for name in key.columns
        )
        text = self._texts[key.name].replace("{sets}", sets)
        text = text.replace("{where}", f"WHERE {conditions}" if conditions else "")
        self[key] = made = self._numbered(self._expanded(text, key.name))
        return made

    def named(self, text: str) -> str:
        """SQL, or the name of a table, with the prefix that the tables of this store have."""
        return with_prefix(text, self._prefix)

    def _expanded(self, text: str, name: Named) -> str:
        """With the macros, which may have parts in them. The name is that of the statement."""

        def expand(found: re.Match[str]) -> str:
            word, _, rest = found[1].partition(" ")
            if found[1] in _GAPS:
                return found[0]
            if word not in self._macros:
                known = ", ".join(sorted(self._macros))
                raise LookupError(
                    f"{type(self._dialect).__name__}: statement {name}: nothing is called "
                    f"{found[0]}: it is no column, no statement and no macro ({known})"
                )
            return self._macros[word](rest)

        return _MACRO.sub(expand, self._with_parts(text))

    def _with_parts(self, text: str) -> str:
        def put(found: re.Match[str]) -> str:
            part = self._texts.get(found[1])
            return found[0] if part is None else self._with_parts(part)

        return _MACRO.sub(put, text)

    def _numbered(self, text: str) -> str:
        """With the dialect's parameters, where one without a number has the next one; and with the
        store's own names.
        """
        count = 0

        def placeholder(found: re.Match[str]) -> str:
            nonlocal count
            count += 1
            return self._dialect.placeholder(int(found[1]) if found[1] else count)

        return _PARAMETER.sub(placeholder, self._dialect.finished(self.named(text)))


def quoted(text: str, words: Iterable[str]) -> str:
    """SQL with these names quoted, where they are not yet, and are no part of a text."""
    if not words:
        return text
    return _names(frozenset(words)).sub(
        lambda found: found[0] if found[0][0] in "'\"" else f'"{found[0]}"', text
    )


@lru_cache
def _names(words: frozenset[str]) -> re.Pattern[str]:
    either = "|".join(sorted(words))
    return re.compile(rf"'(?:[^'\\]|''|\\.)*'|\"[^\"]*\"|\b(?:{either})\b", re.DOTALL)


def _check_own(dialect: Dialect, texts: Mapping[str, str]) -> None:
    """Raise LookupError if a statement is missing that a database has to bring."""
    needed = dict(_OWN)
    for attribute, statements in _OWN_IF.items():
        needed |= statements if getattr(dialect, attribute) else {}
    if missing := [f"{name} ({what})" for name, what in needed.items() if name not in texts]:
        raise LookupError(
            f"{type(dialect).__name__}: its statements.sql lacks\n" + ";\n".join(missing)
        )


def load(path: Path) -> dict[str, str]:
    """The texts of a file by name; a line `-- name: NAME` begins one."""
    texts: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
        texts[name.strip()] = "\n".join(lines).strip().rstrip(";")
    return texts
