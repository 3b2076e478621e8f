"""What is special about a store in memory; the contract is tested with the others."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stayer import App, BadConfig, BadInput, Client, StoreUnusable
from stayer.stores.sql.sqlite.memory import discard


def ids(client: Client) -> list[str]:
    return [task.id for task in client.find()]


@pytest.mark.parametrize("url", ["memory:", "sqlite:///:memory:"])
def test_each_without_a_name_is_a_fresh_one(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = Client(url), Client(url)
    one.get_queue("q").submit({}, id="a")
    assert (ids(one), ids(other)) == (["a"], [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["memory:{}", "memory://{}"])
def test_one_with_a_name_is_shared_by_the_process(form: str) -> None:
    one, other = Client(form.format("shared")), Client("memory:shared")
    try:
        one.get_queue("q").submit({}, id="a")
        one.close()
        assert ids(other) == ids(Client("memory:shared")) == ["a"]
    finally:
        discard("memory:shared")
    assert ids(Client("memory:shared")) == []
    discard("memory:shared")


def test_threads_work_side_by_side() -> None:
    client = Client("memory:")
    queue = client.get_queue("q")
    numbers = [str(number) for number in range(40)]

    def submit(some: list[str]) -> None:
        for id in some:
            queue.submit({}, id=id)

    done: list[str] = []

    def work() -> None:
        with client.get_listener("q") as listener:
            while (task := listener.listen(timeout=0)) is not None or len(done) < len(numbers):
                if task is not None:
                    with client.get_processor(task):
                        done.append(task.id)

    threads = [threading.Thread(target=submit, args=(numbers[n::4],)) for n in range(4)]
    threads += [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted(numbers)
    assert {task.state for task in client.find()} == {"complete"}


def test_whoever_waits_is_woken_by_another_thread() -> None:
    client = Client("memory:")
    handle = client.get_queue("q").submit({})

    def complete() -> None:
        with client.get_listener("q") as listener:
            task = listener.listen()
            assert task is not None
            client.get_processor(task).complete("done")

    thread = threading.Thread(target=complete)
    thread.start()
    assert handle.wait() == "done"
    thread.join()


def test_a_forked_child_is_told_that_the_store_is_not_its_own() -> None:
    app = App("memory:")
    app.client.get_queue("q").submit({})
    there, here = os.pipe()
    child = os.fork()
    if not child:
        try:
            app.client.get_queue("q").submit({})
            os.write(here, b"accepted")
        except StoreUnusable as error:
            os.write(here, str(error).encode())
        finally:
            os._exit(0)
    os.close(here)
    with open(there, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    assert "belongs to process" in said
    assert len(ids(app.client)) == 1


def test_it_takes_no_options_and_no_transaction_of_the_caller() -> None:
    with pytest.raises(BadConfig, match="no options"):
        Client("memory:x?synchronous=full")
    with pytest.raises(BadInput, match="give a file"):
        Client("memory:").get_queue("q").submit({}, connection=object())
