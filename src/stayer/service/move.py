"""Moving a whole store into another: sealed, copied in batches, compared, then marked as moved.

1. Both are **sealed**, first the source, then the target (`Store.put_seal`): from then on nobody
   changes either but this. So what is copied stands still, and a schedule fires on neither side.
2. Stage by stage the source is read and the target filled. With each batch the target notes how far
   it has come. Whoever is killed here loses at most the note: a batch may come twice.
3. All of it is read once more, from both sides, and compared by count and digest.
4. The source is marked as moved, the target opened.

What a kill leaves behind is told by the two seals, which bear the same name of the move: the same
command goes on from there.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput, Refused, StoreUnusable
from stayer.core.history.line import Line
from stayer.core.insight.queue_stats import KEPT
from stayer.core.model import RUNNING
from stayer.core.move.records import (
    STAGES,
    FiguresCopy,
    PurgedCopy,
    Record,
    Seal,
    Stage,
    TaskCopy,
)
from stayer.core.worker_model import Worker
from stayer.service.upkeep.totals import Counter
from stayer.store import REMEMBERED, Store

BATCH = 4_000_000
"""About how many bytes are on the way at once."""
_COMPARED: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage != "counters")
_HELD_BY_STORES_THEMSELVES: tuple[Stage, ...] = ("counters", "figures")
"""What an empty store may have."""
_FORGOTTEN_WITHIN_S = 3600.0
"""What would be forgotten in so many seconds is not compared: a store may forget it meanwhile."""
_DIGEST = 16
_NAMED = 5
_COPIED, _VERIFIED = "copied", "verified"
"""How far a move has come when all is there, and when that is known."""
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Progress(Struct, frozen=True):
    """How far a move is, for whoever watches it."""

    step: str
    """`copy` or `compare`."""
    stage: Stage
    records: int
    """How many of the stage have been seen so far, in this run."""


class Moved(Struct, frozen=True):
    """What was moved: how many of each stage."""

    counts: dict[Stage, int]


Tell = Callable[[Progress], None]


def move(source: Store, target: Store, tell: Tell) -> Moved:
    """Move all of a store into another, or go on with that. Raises Refused if it can't be."""
    seal = _begun(source, target)
    if seal.role == "moved":  # killed between the last two steps, or after them
        if target.seal() is not None:
            target.put_seal(None)
        return Moved({})
    copied = _target_seal(target).progress
    counts: dict[Stage, int] = {}
    if copied != _VERIFIED:
        if copied != _COPIED:
            _copy(source, target, copied, tell)
        counts = _compare(source, target, tell)
        target.load((), _VERIFIED)
    source.put_seal(replace(seal, role="moved"))
    target.put_seal(None)
    return Moved(counts)


def reopen(source: Store) -> Seal:
    """Take the mark of a move off its source, so that it is used again; the mark that it bore."""
    seal = source.seal()
    if seal is None:
        raise Refused(f"{source.url} bears no mark of a move: it is in use, as usual")
    if seal.role == "target":
        raise Refused(
            f"{source.url} was being filled from {seal.other} and is not whole: reopen that one, "
            "and throw this one away"
        )
    source.put_seal(None)
    return seal


def address(store: Store) -> str:
    """Return the URL of a store, as it is understood in any folder, without any password."""
    if store.path is None:
        return store.url
    _, question_mark, options = store.url.partition("?")
    return f"sqlite:///{store.path}{question_mark}{options}"


# Before


def _begun(source: Store, target: Store) -> Seal:
    """Return the seal of the source: that of a move which goes on, or a new one; the target has one
    too, unless the move is over but for opening it.
    """
    if source.identity() == target.identity():
        raise BadInput(f"{source.url} and {target.url} are the same store: nothing to move")
    ours, theirs = source.seal(), target.seal()
    if ours is not None and ours.role in ("target", "backup"):
        raise Refused(f"{source.url}: {ours.message}")
    if theirs is not None and theirs.role != "target":
        raise Refused(f"{target.url}: {theirs.message}. Move into an empty store")
    if ours is not None and ours.role == "moved":
        is_ours = theirs is None or theirs.move == ours.move
        if is_ours and ours.other_identity == target.identity():
            return ours
        raise Refused(f"{source.url}: {ours.message}")
    if theirs is not None and (ours is None or theirs.move != ours.move):
        raise Refused(
            f"{target.url} has a part of another move in it, from {theirs.other}: go on with that "
            "one, or empty the store"
        )
    if ours is not None and ours.other_identity != target.identity():
        raise Refused(
            f"{source.url} is being moved to {ours.other}: go on with that, or give it up with "
            "`stayer move --reopen` first"
        )
    if theirs is None:
        _refuse_what_is_not_empty(target)
    if ours is None:
        ours = _seal(source, target)
    else:
        # Whoever was killed may have left it sealed in part, and not have looked who is there.
        source.put_seal(ours)
        _refuse_while_in_use(source)
    if theirs is not None:
        target.put_seal(theirs)
    if theirs is None:
        target.put_seal(
            replace(ours, role="target", other=address(source), other_identity=source.identity())
        )
    return ours


def _seal(source: Store, target: Store) -> Seal:
    """Seal the source, if nobody works there. Who came while it was looked is seen afterwards."""
    _refuse_while_in_use(source)
    source.take_in()
    if source.read_shared("totals") is not None:
        Counter(source).count()  # by the numbers of its own events; those of the target may differ
    seal = Seal(
        move=secrets.token_hex(8), role="source", other=address(target),
        other_identity=target.identity(), at=source.now(),
    )  # fmt: skip
    source.put_seal(seal)
    try:
        _refuse_while_in_use(source)
    except BaseException:
        source.put_seal(None)
        raise
    return seal


def _refuse_while_in_use(store: Store) -> None:
    alive = [worker for worker in store.workers() if worker.state != "STALE"]
    if alive:
        shown = ", ".join(map(_named, alive[:_NAMED]))
        more = f" and {len(alive) - _NAMED} more" if len(alive) > _NAMED else ""
        drain = " ".join(worker.id for worker in alive[:_NAMED])
        raise Refused(
            f"workers use {store.url}: {shown}{more}. Nothing was moved. Let them finish what they "
            f"run with `stayer drain {drain}`, and try again when `stayer workers` lists none"
        )
    for queue in store.queues():
        running = sum(queue.counts.get(state, 0) for state in RUNNING)
        if running:
            raise Refused(
                f"{running} of the tasks of queue {queue.name} in {store.url} are held by workers "
                "that are gone. Nothing was moved. Return them to the queue with `stayer workers "
                "drop ID` (`stayer workers` names them), or start a worker that does"
            )


def _named(worker: Worker) -> str:
    runs = f", runs {worker.running}" if worker.running else ""
    return f"{worker.id} ({worker.node}{runs})"


def _refuse_what_is_not_empty(store: Store) -> None:
    for stage in STAGES:
        if stage not in _HELD_BY_STORES_THEMSELVES and store.dump(stage, None, 1).records:
            raise Refused(
                f"{store.url} is not empty: it has {stage}. Move into a store of its own: a new "
                "file, another database, or another prefix"
            )
    if alive := [worker for worker in store.workers() if worker.state != "STALE"]:
        raise Refused(
            f"worker {alive[0].id} uses {store.url} already: stop it until the move is done"
        )


def _target_seal(target: Store) -> Seal:
    seal = target.seal()
    if seal is None or seal.role != "target":
        raise StoreUnusable(f"{target.url} lost the mark of the move: use an empty store")
    return seal


# Copying


class _Place(Struct, frozen=True):
    """Where to go on: the stage, and the cursor in it."""

    stage: Stage
    cursor: str | None = None


_place = json_decoder(_Place).decode


def _copy(source: Store, target: Store, progress: str, tell: Tell) -> None:
    place = _place(progress) if progress else _Place(STAGES[0])
    for stage in STAGES[STAGES.index(place.stage) :]:
        cursor = place.cursor if stage == place.stage else None
        records = 0
        while True:
            batch = source.dump(stage, cursor, BATCH)
            target.load(batch.records, _following(stage, batch.next))
            records += len(batch.records)
            tell(Progress("copy", stage, records))
            if batch.next is None:
                break
            cursor = batch.next


def _following(stage: Stage, cursor: str | None) -> str:
    """Return what the target notes when a batch is there: where the next one begins."""
    if cursor is not None:
        return msgspec.json.encode(_Place(stage, cursor)).decode()
    number = STAGES.index(stage) + 1
    if number == len(STAGES):
        return _COPIED
    return msgspec.json.encode(_Place(STAGES[number])).decode()


# Comparing


def _compare(source: Store, target: Store, tell: Tell) -> dict[Stage, int]:
    """Read all of both, and count. Raises StoreUnusable if they differ."""
    before = max(source.now(), target.now()) + _FORGOTTEN_WITHIN_S
    counts: dict[Stage, int] = {}
    for stage in _COMPARED:
        ours = _digest(source, stage, before, tell)
        theirs = _digest(target, stage, before, tell)
        if ours != theirs:
            raise StoreUnusable(
                f"not moved: of {stage}, {source.url} has {ours[0]:,} and {target.url} has "
                f"{theirs[0]:,}{'' if ours[0] != theirs[0] else ', and they differ'}. Empty the "
                "target and begin anew after `stayer move --reopen`; please report it"
            )
        counts[stage] = ours[0]
    return counts


def _digest(store: Store, stage: Stage, before: float, tell: Tell) -> tuple[int, int]:
    """Return how many records there are, and the sum of their digests: the same in whichever
    order.
    """
    count = total = 0
    seen: set[bytes] = set()
    for records in _batches(store, stage):
        for record in records:
            if (moment := expires(record)) is not None and moment < before:
                continue
            digest = hashlib.blake2b(_encode(_bare(record)), digest_size=_DIGEST).digest()
            if stage == "purged":
                if digest in seen:
                    continue
                seen.add(digest)
            count += 1
            total += int.from_bytes(digest, "big")
        tell(Progress("compare", stage, count))
    return count, total % 2 ** (8 * _DIGEST)


def _bare(record: Record) -> Record:
    """Return a record without what a store may number in its own way: the event that a task
    came.
    """
    if not isinstance(record, TaskCopy) or not record.history:
        return record
    first, *others = record.history
    return replace(record, history=(Line(0, *msgspec.structs.astuple(first)[1:]), *others))


def _batches(store: Store, stage: Stage) -> Iterator[tuple[Record, ...]]:
    cursor: str | None = None
    while True:
        batch = store.dump(stage, cursor, BATCH)
        yield batch.records
        if batch.next is None:
            return
        cursor = batch.next


def expires(record: Record) -> float | None:
    """Return when a store may forget it by itself; None: never."""
    match record:
        case PurgedCopy():
            return record.at + REMEMBERED
        case FiguresCopy():
            return record.figures.at + KEPT[record.step]
        case _:
            return None
