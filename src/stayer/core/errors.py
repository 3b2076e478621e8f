"""Everything that Stayer raises.

StayerError
├── BadInput                what was asked makes no sense: says what to do        (exit code 2)
│   ├── TooLarge            parameters, result, checkpoint over their limit
│   ├── BadResult           what a task returned can't be stored
│   ├── UnknownTask         no task has this id (or prefix)
│   ├── UnknownQueue        no queue has this name
│   ├── UnknownWorker       no worker has this id
│   ├── UnknownSchedule     no schedule has this name
│   ├── UnknownFile         no file has this hash
│   ├── UnknownFlow         no flow has this id
│   └── BadConfig           a setting, URL or configuration file that can't be used
├── Refused                 it makes sense, but not in the state that things are in (exit code 2)
│   ├── NotHeld             the task is no longer held by this worker and attempt
│   └── DeletedId           a task of this id was deleted, so it can't be used again yet
├── LeaseLost               this worker was declared lost, or its identity is another's
├── StoreError              the database
│   ├── StoreUnreachable    can't be reached, or does not answer                   (exit code 4)
│   └── StoreUnusable       not a database, read-only, newer version, disk full   (exit code 2)
│       └── StoreMoved      it is being moved to another one, or was
├── TaskFailed              waiting for a result that will not come: it failed     (exit code 1)
├── TaskCancelled           … it was cancelled                                     (exit code 3)
└── WaitTimeout             … not in that time                                     (exit code 124)

A message says what happened, to what, and what to do. How a task ended is a value, not an
exception; the three at the end exist for callers who asked for a result. `Stopped` is no error and
not in the tree: it ends a task that is asked to stop, as KeyboardInterrupt ends a program.
"""

from __future__ import annotations

from stayer.core.model import Fault

UNCHANGED = ": nothing was changed"
"""What an error says of the one thing that was asked for: not true if it was one of several."""


class StayerError(Exception):
    """The root of all that Stayer raises."""

    exit_code = 1


class BadInput(StayerError):
    """What was asked makes no sense."""

    exit_code = 2


class TooLarge(BadInput):
    """A value is over its size limit."""


class BadResult(BadInput):
    """What a task returned can't be stored; it is in `value`, so that it is not lost."""

    def __init__(self, message: str, value: object) -> None:
        self.value = value
        super().__init__(message)


class UnknownTask(BadInput):
    """No task has this id or prefix."""


class UnknownFile(BadInput):
    """No file in the store has this hash."""


class UnknownFlow(BadInput):
    """No flow has this id."""


class UnknownQueue(BadInput):
    """No queue has this name."""


class UnknownWorker(BadInput):
    """No worker has this id."""


class UnknownSchedule(BadInput):
    """No schedule has this name."""


class BadConfig(BadInput):
    """A setting, URL or configuration file can't be used."""


class Refused(StayerError):
    """The state of things does not allow it."""

    exit_code = 2


class NotHeld(Refused):
    """The task is no longer held by this worker and attempt."""


class DeletedId(Refused):
    """The id is that of a task that was deleted, and is not accepted again for a while."""

    ids: tuple[str, ...] = ()
    """Of many tasks that were submitted together, the ids that were refused so. The others were
    accepted."""


class LeaseLost(StayerError):
    """This worker was declared lost, or another has its identity: it must give up its tasks."""


class StoreError(StayerError):
    """The database could not do what it was asked."""

    unsure = False
    """It may have done it all the same: who asked got no answer, or only some of it was done."""
    drawn: tuple[str, ...] = ()
    """Of tasks that may have been accepted so, the ids that were drawn for them: to submit them
    again under these makes none twice."""


class StoreUnreachable(StoreError):
    """The database can't be reached, or does not answer in time."""

    exit_code = 4


class StoreUnusable(StoreError):
    """The database is there but can't be used as it is."""

    exit_code = 2


class StoreMoved(StoreUnusable):
    """The database is being moved to another one, or was: nothing is changed here."""


class TaskFailed(StayerError):
    """The task whose result was asked for has failed."""

    exit_code = 1

    def __init__(self, task_id: str, error: Fault | None) -> None:
        self.task_id = task_id
        self.error = error
        from stayer.core.fault_text import fault_line

        detail = f": {fault_line(error)}" if error else ""
        super().__init__(f"task {task_id} failed{detail}")


class TaskCancelled(StayerError):
    """The task whose result was asked for was cancelled."""

    exit_code = 3


class WaitTimeout(StayerError):
    """The task did not finish in the time given."""

    exit_code = 124


class Retry(Exception):  # it says what is wanted, not what is wrong
    """Raised by a task that failed and wants another try, after this many seconds if it says so.

    Counted as a failure: its retries are its budget.
    """

    def __init__(
        self, message: str = "asked to be tried again", after: float | None = None
    ) -> None:
        super().__init__(message)
        self.after = after


class GiveUp(Exception):
    """Raised by a task that failed, and for which another try is of no use."""


class Snooze(Exception):
    """Raised by a task that wants to be run again later, free of charge: what it needs is not there
    yet.
    """

    def __init__(self, delay: float, message: str = "not yet") -> None:
        super().__init__(message)
        self.delay = delay


class Stopped(BaseException):
    """Raised in the main thread of a task that is asked to stop: clean up and let it pass.

    Not an Exception, because `except Exception` must not swallow it.
    """


def kind(error: type[StayerError]) -> str:
    """Return the name of an error between programs: `UnknownTask` is `unknown-task`."""
    letters = (f"-{letter}" if letter.isupper() else letter for letter in error.__name__)
    return "".join(letters).lower().removeprefix("-")


def of_kind(name: str) -> type[StayerError] | None:
    """Return the error with this name that is made of its message alone."""
    known: list[type[StayerError]] = [StayerError]
    for each in known:
        known.extend(each.__subclasses__())
        if kind(each) == name and "__init__" not in vars(each):
            return each
    return None
