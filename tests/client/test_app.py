"""App and TaskFunction: functions as tasks."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import msgspec
import pytest

from stayer import (
    App,
    BadInput,
    BadResult,
    Client,
    DuplicateWarning,
    Task,
    TaskFailed,
    TaskHandle,
    TooLarge,
)
from tests.client.actors import take

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Size:
    width: int
    height: int


class Frame(msgspec.Struct):
    size: Size
    at: datetime
    colour: Colour = Colour.RED


@pytest.fixture
def app(client: Client) -> App:
    return App(client)


def run(app: App) -> TaskHandle[Any]:
    """Do what a worker does with the next task."""
    with app.client.get_listener(app.queue) as listener:
        task = take(listener)
        with app.client.get_processor(task) as processor:
            processor.complete(app.call(task))
        return task


def test_a_task_function_is_called_as_before(app: App) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert_type(add(1), int)
    assert add(1) == 3
    assert add.__doc__ == "Add."
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]


def test_a_submitted_call_is_stored_by_parameter_name_without_defaults(app: App) -> None:
    @app.task
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        return a + b + c

    task = add.submit(1, c=5)
    assert_type(task, TaskHandle[int])
    assert task.parameters == {"a": 1, "c": 5}
    assert (task.queue, task.name, task.owner) == ("default", add.name, "ada")
    assert run(app).id == task.id
    assert_type(task.wait(), int)
    assert task.wait() == 8


def test_methods_of_other_queues_are_told_what_they_are_called_here(app: App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    for habit, here in (("delay", "submit"), ("apply_async", "options"), ("si", "s")):
        with pytest.raises(AttributeError, match=f"no attribute '{habit}': use .*{here}"):
            getattr(double, habit)
    assert not hasattr(double, "other")


def test_a_wrong_call_is_refused_at_submission(app: App) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1, 2, 3), {}),
        ((1,), {"x": 1}),
    ]
    for arguments, named in wrong:
        with pytest.raises(TypeError, match="add"):
            add.submit(*arguments, **named)
    with pytest.raises(TypeError, match="argument 'a': Expected `int`, got `str`"):
        add.submit("1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="argument 'a': JSON can't say"):
        add.submit(object())  # type: ignore[arg-type]
    assert app.client.get_queue("default").count() == 0


def test_options_hold_for_each_submission_that_says_nothing_else(app: App) -> None:
    @app.task(name="encode", queue="video", priority=3, retries=1, tags=["x"])
    def encode(path: str) -> None: ...

    plain = encode.submit("a")
    special = encode.options(id="mine", priority=9, delay="1h", queue="slow").submit("b")
    assert (plain.name, plain.queue, plain.priority) == ("encode", "video", 3)
    assert (plain.policy.retries, plain.tags, plain.state) == (1, ("x",), "pending")
    assert (special.id, special.queue, special.priority) == ("mine", "slow", 9)
    assert (special.policy.retries, special.state) == (1, "scheduled")
    assert_type(encode.options(held=True).submit("c"), TaskHandle[None])
    assert encode.submit("d").priority == 3


def test_the_same_id_again_is_the_task_that_is_there(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    first = double.options(id="mine").submit(1)
    assert double.options(id="mine").submit(1).created == first.created
    with pytest.warns(DuplicateWarning) as caught:
        assert double.options(id="mine").submit(2).parameters == {"n": 1}
    assert caught[0].filename == __file__


def test_many_calls_are_submitted_at_once(app: App) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    tasks = double.submit_many({"n": n} for n in range(1500))
    assert_type(tasks, list[TaskHandle[int]])
    assert [task.parameters for task in tasks] == [{"n": n} for n in range(1500)]
    named = double.options(priority=1).submit_many([{"n": 1}, {"n": 2}], ids=["a", "b"])
    assert [(task.id, task.priority) for task in named] == [("a", 1), ("b", 1)]
    with pytest.raises(TypeError, match="double") as caught:
        double.submit_many([{"n": 1}] * 1000 + [{"m": 1}])
    assert caught.value.__notes__ == ["the first 1000 tasks were accepted, the rest was not"]
    with pytest.raises(BadInput, match="ids"):
        double.options(id="c").submit_many([{"n": 1}])


def test_a_call_may_belong_to_the_callers_transaction(app: App, tmp_path: Path) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    connection = sqlite3.connect(tmp_path / "stayer.db")
    app.client.get_queue("default").count()
    double.options(connection=connection).submit(1)
    connection.rollback()
    kept = double.options(connection=connection).submit(2)
    connection.commit()
    connection.close()
    assert [task.id for task in app.client.find()] == [kept.id]


def test_arguments_and_results_have_their_annotated_types(app: App) -> None:
    @app.task
    def shift(
        frame: Frame, by: timedelta, at: Path, data: bytes, size: Size | None = None
    ) -> Frame:
        assert (at, data, size) == (Path("a/b"), b"\xff", None)
        return Frame(frame.size, frame.at + by, frame.colour)

    frame = Frame(Size(1, 2), datetime(2026, 1, 1, tzinfo=UTC))
    task = shift.submit(frame, timedelta(hours=1), Path("a/b"), data=b"\xff")
    run(app)
    assert task.wait() == Frame(Size(1, 2), datetime(2026, 1, 1, 1, tzinfo=UTC))
    assert shift.get_task(task.id).result == task.result
    assert isinstance(task.record.result, dict)


def test_any_number_of_arguments_have_their_types_too(app: App) -> None:
    @app.task
    def total(first: int, /, *sizes: Size, **more: Size) -> list[int]:
        return [first, *(size.width for size in (*sizes, *more.values()))]

    task = total.submit(1, Size(2, 0), Size(3, 0), four=Size(4, 0))
    assert task.refresh().parameters == {
        "first": 1,
        "sizes": [{"width": 2, "height": 0}, {"width": 3, "height": 0}],
        "more": {"four": {"width": 4, "height": 0}},
    }
    run(app)
    assert task.wait() == [1, 2, 3, 4]


def test_without_annotations_values_pass_as_json(app: App) -> None:
    @app.task
    def echo(value):
        return value

    task = echo.submit({"a": [1, None]})
    run(app)
    assert task.wait() == {"a": [1, None]}


def test_a_result_may_be_bytes(app: App) -> None:
    @app.task
    def render() -> bytes:
        return b"\x89PNG"

    task = render.submit()
    run(app)
    assert task.wait() == task.record.result == b"\x89PNG"


def test_another_language_may_submit_the_same(app: App) -> None:
    @app.task(name="video.scale")
    def scale(size: Size, factor: float = 2.0) -> float:
        return size.width * factor

    parameters: Any = {"size": {"width": 3, "height": 1}}
    id = app.client.get_queue("default").enqueue(parameters, name="video.scale")
    run(app)
    assert scale.get_task(id).wait() == 6.0


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({}, "'n' is missing"),
        ({"n": 1, "m": 2}, "no parameter 'm'"),
        ({"n": "1"}, "'n': Expected `int`"),
        ([1], "an object"),
        (None, "'n' is missing"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(app: App, parameters: Any, complaint: str) -> None:
    @app.task(name="double")
    def double(n: int) -> int:
        return 2 * n

    with pytest.raises(BadInput, match=complaint):
        app.call(Task(id="x", queue="q", name="double", parameters=parameters))


class Opaque:
    """Nothing that JSON can say."""


def test_a_class_that_json_can_not_say_is_refused_both_ways(app: App) -> None:
    @app.task(name="look")
    def look(at: Opaque) -> None: ...

    with pytest.raises(TypeError, match="argument 'at': JSON can't say"):
        look.submit(Opaque())
    with pytest.raises(BadInput, match="'at': class Opaque can't be made from JSON"):
        app.call(Task(id="x", queue="q", name="look", parameters={"at": 1}))


def test_what_is_not_in_the_app_is_refused(app: App) -> None:
    for name in ("other", None):
        with pytest.raises(BadInput, match="not in this app"):
            app.call(Task(id="x", queue="q", name=name))


def test_a_task_of_another_function_is_refused(app: App) -> None:
    @app.task
    def one() -> None: ...

    @app.task
    def two() -> None: ...

    with pytest.raises(BadInput, match="not of"):
        two.get_task(one.submit().id)


def test_a_function_that_raises_fails_its_task(app: App) -> None:
    @app.task
    def divide(n: int) -> float:
        return 1 / n

    task = divide.submit(0)
    with pytest.raises(ZeroDivisionError):
        run(app)
    with pytest.raises(TaskFailed, match="ZeroDivisionError"):
        task.wait()


def test_a_result_that_json_can_not_say_fails_its_task(app: App) -> None:
    @app.task
    def opaque() -> object:
        return object()

    @app.task
    def huge() -> str:
        return "x" * 1_000_001

    for function, error in ((opaque, BadResult), (huge, TooLarge)):
        task = function.submit()
        with pytest.raises(error):
            run(app)
        assert task.refresh().state == "failed"


def test_a_result_of_another_type_is_told(app: App) -> None:
    @app.task
    def wrong() -> int:
        return "text"  # type: ignore[return-value]

    task = wrong.submit()
    run(app)
    with pytest.raises(BadInput, match="another type"):
        task.wait()


def test_annotations_that_are_not_there_at_run_time_are_told(app: App) -> None:
    @app.task
    def lost(x: Decimal) -> None: ...

    with pytest.raises(TypeError, match="annotations must be importable"):
        lost.submit(1)  # type: ignore[arg-type]
