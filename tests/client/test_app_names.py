"""App: what its tasks are called, and when it connects."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stayer import App, BadInput, Client


@pytest.fixture
def app(client: Client) -> App:
    return App(client)


def test_what_can_be_no_task_is_refused(app: App) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def asynchronous_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, asynchronous_generator):
        with pytest.raises(BadInput, match="not a generator"):
            app.task(function)
    with pytest.raises(BadInput, match="lambda"):
        app.task(lambda: 1)
    with pytest.raises(BadInput, match="name"):
        app.task(name="")(print)
    with pytest.raises(BadInput, match="retries"):
        app.task(retries=-1)(print)
    assert app.names == ()


def test_a_name_is_given_once(app: App) -> None:
    @app.task(name="one")
    def first() -> None: ...

    with pytest.raises(BadInput, match="a task one already"):

        @app.task(name="one")
        def second() -> None: ...

    assert app.names == ("one",)
    assert repr(first) == "<TaskFunction one>"


def double(n: int) -> int:
    return 2 * n


def test_a_name_is_where_the_function_is(app: App) -> None:
    assert app.task(double).name == f"{__name__}.double"


SCRIPT = """
import stayer
app = stayer.App("sqlite:///nowhere/stayer.db")
@app.task
def encode(path: str) -> None: ...
class Video:
    @app.task
    @staticmethod
    def scale() -> None: ...
if __name__ == "__main__":
    print(*app.names)
"""


@pytest.mark.parametrize(
    ("command", "module"),
    [
        (["videos.py"], "videos"),
        (["-m", "package.videos"], "package.videos"),
        (["-m", "package"], "package"),
        (["-c", "import package.videos; print(*package.videos.app.names)"], "package.videos"),
    ],
)
def test_a_script_names_its_tasks_as_whoever_imports_it_does(
    tmp_path: Path, command: list[str], module: str
) -> None:
    (tmp_path / "package").mkdir()
    for name in ("videos.py", "package/videos.py", "package/__main__.py", "package/__init__.py"):
        (tmp_path / name).write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [f"{module}.encode", f"{module}.Video.scale"]
    assert not (tmp_path / "nowhere").exists()


def test_an_app_connects_when_it_is_first_used(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/later.db", queue="q")

    @app.task
    def double(n: int) -> int:
        return 2 * n

    assert double(1) == 2
    with pytest.raises(TypeError):
        double.submit()  # type: ignore[call-arg]
    assert not (tmp_path / "later.db").exists()
    assert double.submit(1).queue == "q"
    assert (tmp_path / "later.db").exists()
    app.client.close()
