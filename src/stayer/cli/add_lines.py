"""`add --jsonl`: many tasks, one JSON object a line, chunk by chunk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import structs

from stayer.cli.command import Given
from stayer.cli.output import note, on_screen, plural, print_json_array, print_lines, stdin
from stayer.cli.progress import Advance, progress
from stayer.cli.submit import READ_LIMIT, is_given, is_remote, option_name, working_directory
from stayer.core import codec, ids
from stayer.core.decoding import decode_json
from stayer.core.errors import UNCHANGED, BadInput, Refused, StayerError, StoreError
from stayer.core.fields import SUBMISSION
from stayer.core.model import NewTask, Submitted
from stayer.core.submit import checks
from stayer.core.submit.json import parse_submission
from stayer.service import tracing
from stayer.service.control import tasks as control
from stayer.service.degraded.ambiguous import naming_drawn_ids
from stayer.store import Store

CHUNK_TASKS = 1000
"""How many tasks are checked, then submitted, together."""
_FOR_MANY = ("queue", "owner", "retries")
"""What options may say of all lines that don't."""


def _option_of(name: str) -> str:
    """What the option is called whose value the command is given by this name."""
    if name == "set_parameters":
        return "-p"
    return option_name(SUBMISSION[name]) if name in SUBMISSION else f"--{name.rstrip('_')}"


class _Line(NamedTuple):
    """A task, and where it stands."""

    number: int
    text: bytes
    new: NewTask


@dataclass
class Tally:
    """How far it has come."""

    accepted: int = 0
    there: int = 0
    deleted: int = 0


def add_lines(
    given: Given, path: str, words: Sequence[str], options: Mapping[str, Any], as_json: bool
) -> int:
    """Submit what the lines say, and print the ids in their order; return the exit code."""
    unfit = [
        _option_of(name)
        for name, value in options.items()
        if name not in _FOR_MANY and is_given(value)
    ]
    if words or unfit:
        what = unfit[0] if unfit else "a command"
        raise BadInput(f"{what} is for one task: with --jsonl, say it in each line")
    config = given.config()
    defaults = {
        name: getattr(config, name) if options[name] is None else options[name]
        for name in _FOR_MANY
    }
    defaults["submitted_by"] = config.submitter or None
    tally = Tally()
    # Ids that run over the screen are news enough.
    wanted = not on_screen()
    with _open(path) as (file, name), progress(_size(file), wanted=wanted) as advance:
        tasks = _tasks(file, name, defaults, is_here=not is_remote(given))
        answers = _submit(given.store(make=True), tasks, tally)
        if as_json:
            print_json_array(
                {**codec.record(answer.task), "fresh": answer.fresh}
                for chunk in _with_progress(answers, file, tally, advance)
                for answer in chunk
                if not answer.purged
            )
        else:
            for chunk in _with_progress(answers, file, tally, advance):
                print_lines(answer.task.id for answer in chunk if not answer.purged)
    if not tally.accepted:
        note(f"no tasks in {name}")
    if tally.there:
        note(f"{tally.there:,} of {plural(tally.accepted)} were already there")
    if tally.deleted:
        was = "was" if tally.deleted == 1 else "were"
        note(f"{plural(tally.deleted)} {was} not accepted: deleted ids are refused for 30 days")
    return Refused.exit_code if tally.deleted else 0


@contextmanager
def _open(path: str) -> Iterator[tuple[BinaryIO, str]]:
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


def _tasks(
    file: BinaryIO, name: str, defaults: Mapping[str, Any], *, is_here: bool
) -> Iterator[_Line]:
    for number, line in _lines(file, name):
        if line.strip():
            yield _Line(number, line, _task(line, f"{name}:{number}", defaults, is_here))


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


def _task(line: bytes, where: str, defaults: Mapping[str, Any], is_here: bool) -> NewTask:
    fields = parse_submission(line, where)
    try:
        if "command" in fields and is_here:
            fields["cwd"] = working_directory(fields.get("cwd"))
        new = checks.new_task(**{**defaults, **fields})
        # Now, so that the line can be named, and before anything is submitted.
        codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    except BadInput as error:
        error.args = (f"{where}: {error}",)
        raise
    return new


def _submit(store: Store, lines: Iterator[_Line], tally: Tally) -> Iterator[list[Submitted]]:
    sent: list[_Line] = []
    try:
        while sent := _with_near_ids(list(islice(lines, CHUNK_TASKS))):
            chunk = [line.new for line in sent]
            control.check_startable(store, chunk)
            with tracing.trace_submit(chunk) as traced, naming_drawn_ids(store, traced):
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
        if isinstance(error, StoreError) and error.unsure:
            sent = _with_ids(sent, error.drawn) if error.drawn else sent
            news = _describe_doubt(sent, tally.accepted)
        elif tally.accepted:
            news = f"the first {plural(tally.accepted)} were accepted, the rest was not"
        else:
            news = "nothing was accepted"
        message = str(error).replace(UNCHANGED, "") if tally.accepted else error
        error.args = (f"{message} ({news})",)
        raise


def _describe_doubt(sent: Sequence[_Line], accepted: int) -> str:
    """Say what is known of each line, and how to go on so that none becomes two tasks."""
    first, last = sent[0].number, sent[-1].number
    before = f"{plural(accepted)} were accepted; " if accepted else ""
    unknown = f"{before}lines {first:,} to {last:,} may have been, all or some"
    if not any(line.new.generated for line in sent):
        return f"{unknown}: to submit them again under the same ids makes none twice"
    try:
        path = _save_lines(sent)
    except OSError as error:
        return f"{unknown}, and their ids can't be kept in a file: {error.strerror}"
    return (
        f"{unknown}. They are in {path} with the ids that were drawn for them: the same with "
        f"--jsonl {path} submits them again, none twice. Then go on with line {last + 1:,}"
    )


def _save_lines(lines: Sequence[_Line]) -> str:
    """Write these lines with their ids to a file, for whoever wants to submit them again."""
    with tempfile.NamedTemporaryFile(prefix="stayer-add-", suffix=".jsonl", delete=False) as file:
        for line in lines:
            fields = decode_json(line.text, dict[str, msgspec.Raw])
            file.write(msgspec.json.encode({**fields, "id": line.new.id}) + b"\n")
    return file.name


def _with_progress(
    answers: Iterator[list[Submitted]], file: BinaryIO, tally: Tally, advance: Advance
) -> Iterator[list[Submitted]]:
    for chunk in answers:
        yield chunk
        advance(file.tell() if _size(file) else 0, plural(tally.accepted))


def _size(file: BinaryIO) -> int | None:
    """Return how long the file is; None for a pipe."""
    try:
        return os.fstat(file.fileno()).st_size or None
    except OSError:
        return None


def _with_near_ids(lines: list[_Line]) -> list[_Line]:
    """Draw the ids together: neighbours in the store's index keep it quick."""
    return _with_ids(lines, ids.generate_many(sum(line.new.generated for line in lines)))


def _with_ids(lines: Sequence[_Line], drawn: Iterable[str]) -> list[_Line]:
    """Give each line without an id of its own the next of these."""
    left = iter(drawn)
    return [
        line._replace(new=structs.replace(line.new, id=next(left))) if line.new.generated else line
        for line in lines
    ]
