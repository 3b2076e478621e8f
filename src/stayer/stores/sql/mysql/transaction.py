"""A transaction: statements whose answer nobody needs wait for the next one that is needed, and go
in one packet with it, or with COMMIT. So submitting is one round trip, and the rest as many as
there are questions.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.dialect import Dialect
from stayer.stores.sql.joined import LOOKED_UP, newest
from stayer.stores.sql.mysql.bulk import Claimed
from stayer.stores.sql.mysql.dialect import (
    NUMBERS,
    Compiled,
    CompiledStatements,
    with_values,
)
from stayer.stores.sql.mysql.driver import Result
from stayer.stores.sql.mysql.errors import DUPLICATE, code_of
from stayer.stores.sql.mysql.literals import Items
from stayer.stores.sql.transaction import UNASKED, UNCLAIMED, Cell, Named, Row

if TYPE_CHECKING:
    from stayer.stores.sql.mysql.database import Database

_PACKET = 1_000_000
"""So many bytes are sent at once; the server's limit (max_allowed_packet) is 16 MB or more."""
_UNASKED: frozenset[Named] = UNASKED | {
    "counts.added", "events.number", "events.numbered", "events.too_many", "marks.forget",
    "wake.worker",
}  # fmt: skip
_WAKE = 8
"""The place of that in the parameters of `count`."""


class Sends(Protocol):
    """A connection, of our own or the caller's."""

    errors: tuple[type[Exception], ...]

    def run(self, texts: Sequence[bytes]) -> list[Result]:
        """What the statements answer."""


class Numbers:
    """Numbers for events, from what this process has left of its last draw: nobody waits, and
    mostly nobody is asked. Those of a task, to which other processes do something too, are brought
    into their order when they are read.
    """

    def __init__(self) -> None:
        self._next = self._end = 0
        self._guard = threading.Lock()

    def take(self, count: int, tx: MySqlTransaction) -> int:
        with self._guard:
            if self._end - self._next < count:
                self._next, self._end = tx.draw(count)
            first = self._next
            self._next += count
            return first


class _NumbersOf:
    """Those for one transaction, which draws them if there are none left."""

    def __init__(self, tx: MySqlTransaction, numbers: Numbers) -> None:
        self._tx = tx
        self._numbers = numbers

    def take(self, count: int) -> int:
        return self._numbers.take(count, self._tx)


class MySqlTransaction:
    """A transaction on a connection (see `Transaction`)."""

    def __init__(
        self,
        database: Database,
        connection: Sends,
        statements: CompiledStatements,
        now: float,
        *,
        may_stay_open: bool = False,
    ) -> None:
        self._database = database
        self._connection = connection
        self._statements = statements
        self.may_stay_open = may_stay_open
        self._is_looking = False
        self._waiting: list[bytes] = []
        self._size = 0
        self._ahead: list[tuple[tuple[Named, tuple[Cell, ...]], bytes]] = []
        self._fetched: dict[tuple[Named, tuple[Cell, ...]], Sequence[Row]] = {}
        self.committing = False
        """The server has been asked to commit."""
        self._commits = self.is_committed = False
        self.inserting = False
        """Tasks with ids drawn at random are among what waits: one that is there already is found
        when it is sent."""
        self.queues: set[str] = set()
        """Those that got tasks."""
        self.lines_of: set[str] = set()
        """Queues whose lines may be others now."""
        self.counted = 0
        """How many rows of differences were written."""
        self.now = now
        self.dialect: Dialect = statements.dialect
        self.collation = statements.dialect.collation
        self.bulk: Bulk = database.bulk
        self.array = self.dialect.array
        self.claimed = Claimed(self)
        self._shared: set[str] = set()
        """Queues whose settings nobody changes until this is committed."""
        self._sharing: Sequence[Cell] | None = None
        """Those for which that was asked, and the answer not looked at."""

    # What the operations ask for

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        match statement:
            case "unique.lock":
                self._lock_words(zip(*parameters, strict=True))
                return []
            case "unique.lock_of":
                self._lock_words(self._rows(statement, parameters))
                return []
            case _ if self.may_stay_open and statement in LOOKED_UP and not self._is_looking:
                return self._newest(str(statement), parameters)
            case _:
                return self._rows(statement, parameters)

    def _rows(self, statement: Named, parameters: Sequence[Cell]) -> list[Row]:
        compiled = self._statements[statement]
        if compiled.select is not None:
            return self._returned(compiled, parameters)
        asked = statement, tuple(parameters)
        if self._ahead and any(asked == each for each, _ in self._ahead):
            self.exchange([])
        rows = self._fetched.pop(asked, None) if self._fetched else None
        if rows is None:
            [(rows, _)] = self.exchange([compiled(parameters)])
        if compiled.reads_tasks:
            return [with_values(row) for row in rows]
        return list(rows)

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        if statement == "reserve.queue":
            return self._settings(parameters[0])
        rows = self.all(statement, *parameters)
        return rows[0] if rows else None

    def run(self, statement: Named, *parameters: Cell) -> int:
        match statement:
            case "count":
                return self._count(parameters)
            case "submit.forgotten" if self.may_stay_open:
                # To delete what is not there would lock it, in the caller's transaction.
                parameters = (Items(id for (id,) in self.all("submit.forgettable", *parameters)),)
                if not parameters[0]:
                    return 0
            case "queue.key_limit" | "queue.key_limits" | "queue.fair":
                self.defer([self._statements[statement](parameters)])
                self.lines_of.add(parameters[-1])
                return 0
            case "queue.make":
                self.defer([self._statements["queue.make_lock"](parameters)])
            case "queue.drop":
                self._forget_counts(parameters[0])
            case "forget.results":
                parameters = (Items(seq for (seq,) in self.all("forget.spare", *parameters)),)
            case _:
                pass
        text = self._statements[statement](parameters)
        if statement in _UNASKED:
            self.defer([text])
            return 0
        try:
            [(_, count)] = self.exchange([text])
        except self._connection.errors as error:
            if code_of(error) != DUPLICATE:
                raise
            return 0
        return count

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        rows = list(parameters)
        if not rows:
            return 0
        texts = self._statements[statement].batch(rows)
        if statement in _UNASKED:
            self.defer(texts)
            return 0
        return sum(count for _, count in self.exchange(texts))

    def send(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> None:
        rows = list(parameters)
        if statement == "count":
            for row in rows:
                self._count(row)
        elif statement == "queue.share":
            [self._sharing] = rows
            self.prefetch(statement, *self._sharing)
        elif rows:
            self.defer(self._statements[statement].batch(rows))

    def prefetch(self, statement: Named, *parameters: Cell) -> None:
        self._ahead.append(((statement, parameters), self._statements[statement](parameters)))

    def enter(self, rows: Sequence[Sequence[Cell]], common: Sequence[Cell]) -> bool:
        """Insert tasks that were asked for alike: id, parameters and number of each, and what they
        have in common. In a transaction of the caller's own at once; False if an id is there
        already.
        """
        size = sum(len(form) for _, form, _ in rows if form is not None)
        step = max(1, len(rows) * _PACKET // max(size, 1))
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        statement = "submit"
        if self.may_stay_open:
            with self._database.looking() as other:
                found = other.one("submit.share", *common[1:4])
            statement, common = "submit.joined", (*common, None if found is None else found[0])
        else:
            self.defer([self._statements["submit.find_share"](common[1:4])])
        texts = [self._statements[statement].alike(part, common) for part in parts]
        self.inserting = True
        if not self.may_stay_open:
            self.defer(texts)
            return True
        try:
            self.exchange(texts)
        except self._connection.errors as error:
            if code_of(error) != DUPLICATE:
                raise
            return False
        return True

    def delete_tasks(self, seqs: list[int]) -> None:
        """The trigger is told the time, or would take the server's."""
        self.defer([b"SET @stayer_now = %b" % repr(self.now).encode()])
        self.run("purge", self.array(seqs))
        self.defer([b"SET @stayer_now = NULL"])
        self.counted += len(seqs)

    def numbers(self) -> _NumbersOf:
        return _NumbersOf(self, self._database.numbers)

    def notify(self, queues: Iterable[str], workers: Iterable[str]) -> None:
        """Those who wait for queues see it in what `count` has written."""
        self.many("wake.worker", [(worker, self.now) for worker in sorted(workers)])

    # How they are sent

    def defer(self, texts: Sequence[bytes]) -> None:
        """Run these before whatever is asked next."""
        for text in texts:
            if self._size + len(text) > _PACKET and self._waiting:
                self.exchange([])
            self._waiting.append(text)
            self._size += len(text)

    def exchange(self, texts: Sequence[bytes]) -> list[Result]:
        """Answers to these statements; all that waits is run before."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        ahead, self._ahead = self._ahead, []
        if not waiting and not ahead and not texts:
            return []
        last = []
        if self._commits:
            self._commits, self.committing, self.is_committed = False, True, True
            last.append(b"COMMIT")
        found = self._connection.run([*waiting, *(text for _, text in ahead), *texts, *last])
        for (asked, _), (rows, _) in zip(ahead, found[len(waiting) :], strict=False):
            self._fetched[asked] = rows
        return found[len(waiting) + len(ahead) : len(found) - len(last)]

    def commit_with_next(self) -> None:
        self._commits = True

    def commit(self) -> None:
        """With all that waits, unless that is done."""
        self.committing = True
        if not self.is_committed:
            self.exchange([b"COMMIT"])

    def draw(self, count: int) -> tuple[int, int]:
        """The first of so many numbers that nobody else has, and where those end that go with it.
        Rows that are inserted by one statement are numbered one after the other.
        """
        if self.may_stay_open:  # there, to delete a row locks what is around it
            with self._database.write() as own:
                return own.draw(count)
        draws = -(-count // NUMBERS)
        drawn = self._statements["number.drawn"](())
        *_, (rows, _) = self.exchange([*self._statements["number.draw"].batch([()] * draws), drawn])
        first = int(rows[0][0])
        self.defer([self._statements["number.drop"]((first, first + draws - 1))])
        return first * NUMBERS, (first + draws) * NUMBERS

    def named(self, text: str) -> str:
        """SQL, or the name of a table, with the prefix that the tables of this store have."""
        return self._statements.named(text)

    def sql(self, text: str) -> list[Row]:
        """The rows that SQL of MySQL's own gives."""
        [(rows, _)] = self.exchange([self._statements.named(text).encode()])
        return list(rows)

    def _returned(self, compiled: Compiled, parameters: Sequence[Cell]) -> list[Row]:
        """What an UPDATE changes, selected before it. In one packet, unless it looks into its own
        table, as none may: then it is for that row which was found.
        """
        assert compiled.select is not None
        select = compiled.select(parameters)
        if not compiled.own_table_again:
            (rows, _), _ = self.exchange([select, compiled(parameters)])
            return list(rows)
        [(rows, _)] = self.exchange([select])
        if rows:
            self.defer([compiled.of_row(parameters, rows[0][0])])
        return list(rows)

    def _settings(self, queue: str) -> Row | None:
        """The settings of a queue to take from. It is made if its first tasks have just come, or it
        was dropped before; and what has no row can't be shared, so that is done then, and the
        settings are read again.
        """
        rows = self.all("reserve.queue", queue)
        if self._sharing is not None:
            names, self._sharing = self._sharing, None
            self._shared = {name for (name,) in self.all("queue.share", *names)}
        if (not rows or queue not in self._shared) and self._database.make_queue(queue):
            self._shared.add(queue)
            self.all("queue.share", self.array([queue]))
            rows = self.all("reserve.queue", queue)
        return rows[0] if rows else None

    def _newest(self, statement: str, parameters: Sequence[Cell]) -> list[Row]:
        """The caller's transaction may see nothing that is newer than itself; and if it locked what
        it looks for, it would lock what is not there, too. So somebody else looks.
        """
        self._is_looking = True
        try:
            with self._database.looking() as other:
                return newest(self, other, statement, *parameters)
        finally:
            self._is_looking = False

    def _lock_words(self, words: Iterable[Sequence[Cell]]) -> None:
        """In their order, so that nobody waits in a circle."""
        for word in sorted(set(map(tuple, words))):
            self.exchange([self._statements["unique.lock"](word)])
            self.defer([self._statements["unique.locked"](word)])

    def _count(self, parameters: Sequence[Cell]) -> int:
        *numbers, queue = parameters
        if numbers[_WAKE]:
            numbers[_WAKE] = random.getrandbits(30) + 1
        self.queues.add(queue)
        self.counted += 1
        self.defer([self._statements["count"]((*numbers, queue))])
        return 1

    def _forget_counts(self, queue: str) -> None:
        """What a queue that goes leaves behind; what others have not committed yet is of one that
        comes again. Nothing, if one that counts has come meanwhile: then the queue comes again."""
        numbers = [number for (number,) in self.all("counts.of", queue)]
        if self.all("queue.tasks" + UNCLAIMED, queue, 1):
            return
        self.defer([self._statements["counts.added"]((Items(numbers),))])
