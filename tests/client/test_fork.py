"""An app that was used before a fork, as with `gunicorn --preload`, is used in the children."""

from __future__ import annotations

import asyncio
import os
import warnings

import pytest

from stayer import App


def run_forked(work):
    """Run this in a child; what it raised, as text."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads beside a fork
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        said = b"well"
        try:
            work()
        except BaseException as error:
            said = repr(error).encode()
        finally:
            os.write(writer, said)
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read().decode()
    os.waitpid(pid, 0)
    return answer


@pytest.fixture
def app(url: str) -> App:
    return App(url)


def test_children_submit_and_the_parent_goes_on(app: App) -> None:
    @app.task(name="f")
    def f(number: int) -> int:
        return number

    f.submit(0)

    def work() -> None:
        f.submit(1)
        asyncio.run(f.asubmit(2))
        f.submit_many([{"number": 3}])

    said = [run_forked(work) for _ in range(3)]
    assert said == ["well"] * 3
    f.submit(4)
    assert len(list(app.client.find())) == 1 + 3 * 3 + 1


def test_a_listener_stays_with_its_parent(app: App) -> None:
    app.client.get_queue("q").submit({})
    with app.client.get_listener("q") as listener:
        assert listener.listen(timeout=0) is not None
        assert "belongs to the process" in run_forked(lambda: listener.listen(timeout=0))
