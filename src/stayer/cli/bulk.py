"""`add --jsonl`: many tasks, one JSON object a line, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from msgspec import structs

from stayer import control, telemetry
from stayer.cli.command import Given
from stayer.cli.output import many, note, on_screen, print_json_array, print_lines, stdin
from stayer.cli.progress import Advance, progress
from stayer.cli.submit import READ_LIMIT, working_directory
from stayer.core import codec, ids, submission
from stayer.core.errors import BadInput, Refused, StayerError, StoreError
from stayer.core.model import NewTask, Submitted
from stayer.core.written import parse_submission
from stayer.store import Store

CHUNK = 1000
"""How many tasks are checked, then submitted, together."""
_NOT_FOR_MANY = (
    "id",
    "name",
    "data",
    "delay",
    "eta",
    "expire",
    "start_before",
    "cwd",
    "env",
    "tag",
    "hold",
    "priority",
)


@dataclass
class Tally:
    """How far it has come."""

    accepted: int = 0
    there: int = 0
    deleted: int = 0


def add_lines(
    given: Given, path: str, words: Sequence[str], options: Mapping[str, Any], as_json: bool
) -> int:
    """Submit what the lines say, and print the ids in their order; the exit code."""
    unfit = [f"--{name.replace('_', '-')}" for name in _NOT_FOR_MANY if options[name]]
    if words or unfit:
        what = unfit[0] if unfit else "a command"
        raise BadInput(f"{what} is for one task: with --jsonl, say it in each line")
    config = given.config()
    defaults = {
        name: getattr(config, name) if options[name] is None else options[name]
        for name in ("queue", "owner", "retries")
    }
    tally = Tally()
    # Ids that run over the screen are news enough.
    wanted = not on_screen()
    with _opened(path) as (file, name), progress(_size(file), wanted=wanted) as advance:
        answers = _submitted(given.store(make=True), _tasks(file, name, defaults), tally)
        if as_json:
            print_json_array(
                {**codec.record(answer.task), "fresh": answer.fresh}
                for chunk in _shown(answers, file, tally, advance)
                for answer in chunk
                if not answer.purged
            )
        else:
            for chunk in _shown(answers, file, tally, advance):
                print_lines(answer.task.id for answer in chunk if not answer.purged)
    if not tally.accepted:
        note(f"no tasks in {name}")
    if tally.there:
        note(f"{tally.there:,} of {many(tally.accepted)} were already there")
    if tally.deleted:
        was = "was" if tally.deleted == 1 else "were"
        note(f"{many(tally.deleted)} {was} not accepted: deleted ids are refused for 30 days")
    return Refused.exit_code if tally.deleted else 0


@contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, str]]:
    """The file and its name in messages."""
    if path == "-":
        yield stdin(), "stdin"
        return
    try:
        file = open(path, "rb")  # noqa: SIM115  # an error while it is used is not one of opening
    except OSError as error:
        raise BadInput(f"--jsonl: {path} can't be opened: {error.strerror}") from None
    with file:
        yield file, path


def _tasks(file: BinaryIO, name: str, defaults: Mapping[str, Any]) -> Iterator[NewTask]:
    for number, line in _lines(file, name):
        if line.strip():
            yield _task(line, f"{name}:{number}", defaults)


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        while line := file.readline(READ_LIMIT + 1):
            number += 1
            if len(line) > READ_LIMIT:
                raise BadInput(f"{name}:{number}: the line is over {READ_LIMIT:,} bytes")
            yield number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    except OSError as error:
        raise BadInput(f"{name} can't be read: {error.strerror}") from None


def _task(line: bytes, where: str, defaults: Mapping[str, Any]) -> NewTask:
    fields = parse_submission(line, where)
    try:
        if "command" in fields:
            fields["cwd"] = working_directory(fields.get("cwd"))
        new = submission.new_task(**{**defaults, **fields})
        # Now, so that the line can be named, and before anything is submitted.
        codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    except BadInput as error:
        error.args = (f"{where}: {error}",)
        raise
    return new


def _submitted(store: Store, tasks: Iterator[NewTask], tally: Tally) -> Iterator[list[Submitted]]:
    try:
        while chunk := _with_near_ids(list(islice(tasks, CHUNK))):
            with telemetry.submitting(chunk) as traced:
                answers = store.submit(traced)
            deleted = sum(answer.purged for answer in answers)
            tally.accepted += len(chunk) - deleted
            tally.deleted += deleted
            tally.there += sum(not (answer.fresh or answer.purged) for answer in answers)
            for new, answer in zip(chunk, answers, strict=True):
                if other := control.difference(new, answer):
                    note(f"{'' if answer.purged else 'warning: '}task {new.id} {other}")
            yield answers
    except StayerError as error:
        news = f"the first {many(tally.accepted)} were accepted, the rest was not"
        if isinstance(error, StoreError):  # what was on its way may have arrived
            unknown = f"some of the {CHUNK:,} after them may have been"
            news = f"{many(tally.accepted)} were accepted, {unknown}"
        elif not tally.accepted:
            news = "nothing was accepted"
        error.args = (f"{error} ({news})",)
        raise


def _shown(
    answers: Iterator[list[Submitted]], file: BinaryIO, tally: Tally, advance: Advance
) -> Iterator[list[Submitted]]:
    for chunk in answers:
        yield chunk
        advance(file.tell() if _size(file) else 0, many(tally.accepted))


def _size(file: BinaryIO) -> int | None:
    """How long the file is; None for a pipe."""
    try:
        return os.fstat(file.fileno()).st_size or None
    except OSError:
        return None


def _with_near_ids(chunk: list[NewTask]) -> list[NewTask]:
    """Drawn together, ids are neighbours in the store's index, which keeps it quick."""
    drawn = iter(ids.generate_many(sum(new.generated for new in chunk)))
    return [structs.replace(new, id=next(drawn)) if new.generated else new for new in chunk]
