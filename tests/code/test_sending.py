"""`--send`: files of the submitter's machine that come along with a task."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import stayer as package
from stayer.core.code import FILE_LIMIT, check
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import Code, SentFile
from stayer.core.submit.checks import new_task
from stayer.service.sent_files import FileGone, fetch, send
from stayer.store import Store
from tests.cli.running import Here
from tests.code.conftest import CodeFleet
from tests.faults.fleet import until
from tests.http.serving import Site, served_here

SCRIPT = (
    "# /// script\n# dependencies = []\n# requires-python = '>=3.11'\n# ///\nprint('trained')\n"
)


def test_a_command_runs_among_the_files_that_were_sent(
    fleet: CodeFleet, stayer: Here, folder: Path
) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "words.txt").write_text("abc")
    (folder / "run.sh").write_text("#!/bin/sh\ncat in/words.txt\npwd\necho $STAYER_FILES\n")
    (folder / "run.sh").chmod(0o755)
    fleet.worker("one")
    words = "add", "--id", "t", "--send", "run.sh", "--send", "in/words.txt", "--", "./run.sh"
    stayer(*words, STAYER_STORE=fleet.url).works()
    for path in (folder / "run.sh", folder / "in" / "words.txt"):
        path.unlink()

    task = fleet.completed("t")

    where, said = fleet.log("t").removeprefix("abc").splitlines()
    assert where == said
    until(lambda: not os.path.exists(where), "for it to go with the run")
    shown = stayer("show", "t", STAYER_STORE=fleet.url).works()
    assert "with run.sh, in/words.txt" in shown.out
    assert task.code is not None
    assert [file.executable for file in task.code.files] == [True, False]


def test_elsewhere_a_task_finds_its_files_by_a_variable(
    fleet: CodeFleet, stayer: Here, folder: Path
) -> None:
    (folder / "a").write_text("abc")
    fleet.worker("one")
    words = "add", "--id", "t", "--cwd", "/", "--send", str(folder / "a")
    stayer(*words, "--", "sh", "-c", "cat $STAYER_FILES/a; pwd", STAYER_STORE=fleet.url).works()
    fleet.completed("t")
    assert fleet.log("t") == "abc/\n"


def test_a_file_that_is_gone_from_the_store_ends_the_task(fleet: CodeFleet) -> None:
    fleet.add("t", "true", code=Code(files=(SentFile("a", "0" * 64, 1),)), retries=3)
    fleet.worker("one")
    task = fleet.ended("t")
    assert (task.state, task.ending, task.attempt) == ("failed", "environment", 1)
    assert task.error is not None
    assert "no longer in the store" in (task.error.message or "")


def test_a_file_is_as_large_as_its_task_says(store: Store, folder: Path) -> None:
    """Who says less than that would have a worker take any number of bytes into its memory."""
    (folder / "a").write_bytes(b"abc")
    sent = send(store, folder / "a")
    assert fetch(store, Code(files=(sent,))) == [(sent, b"abc")]
    with pytest.raises(FileGone, match="has 3 bytes, and its task says 0"):
        fetch(store, Code(files=(replace(sent, size=0),)))
    many = tuple(replace(sent, name=f"{n}") for n in range(200))
    with pytest.raises(BadInput, match="at most 100"):
        fetch(store, Code(files=many))


@pytest.fixture
def site(fleet: CodeFleet, tmp_path: Path) -> Iterator[Site]:
    place = tmp_path / "server"
    place.mkdir()
    with served_here(place, fleet.url) as site:
        yield site


@pytest.mark.parametrize(
    "names", [("../x",), ("漢" * 100,), ("a", "a/b")], ids=["outside", "long", "clash"]
)
def test_names_that_somebody_wrote_into_the_store_end_the_task_alone(
    fleet: CodeFleet, names: tuple[str, ...]
) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    fleet.store.put_file(digest, b"")
    files = tuple(SentFile(name, digest, 0) for name in names)
    odd = replace(new_task(queue="default", id="odd", command=("true",)), code=Code(files=files))
    fleet.store.submit([odd])
    fleet.add("good", "true", code=Code())
    fleet.worker("one", "--slots", "1")

    assert fleet.ended("odd").state == "failed"
    fleet.completed("good")


def test_a_script_with_a_header_goes_through_a_server(
    fleet: CodeFleet, site: Site, stayer: Here, folder: Path
) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "train.py").write_text(SCRIPT)
    there = {"STAYER_STORE": site.url, "STAYER_TOKEN": site.tokens["submit"]}
    stayer("add", "--id", "t", str(folder / "deep" / "train.py"), **there).works()
    stayer("add", "--id", "u", "deep/train.py", **there).works()
    fleet.starts()
    for id, word in (("t", "train.py"), ("u", "deep/train.py")):
        assert fleet.completed(id).command == ("python", word)
        assert fleet.log(id).splitlines()[-1] == "trained"
    assert len(fleet.store.old_files(fleet.store.now() + 1, 10)) == 1  # both are the same


def test_on_one_machine_a_script_stays_where_it_is(
    stayer: Here, store: Store, folder: Path
) -> None:
    (folder / "train.py").write_text(SCRIPT)
    stayer("add", "--id", "t", "train.py").works()
    stayer("add", "--id", "u", "--send", "train.py", "train.py").works()
    here, sent = store.get(["t", "u"])
    assert here is not None
    assert here.cwd == str(folder)
    assert here.code is not None
    assert not here.code.files
    assert sent is not None
    assert sent.cwd is None
    assert sent.code is not None
    assert [file.name for file in sent.code.files] == ["train.py"]


def test_a_sweep_a_clone_and_an_edit_send_files_too(
    stayer: Here, store: Store, folder: Path
) -> None:
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")
    stayer("sweep", "--id", "s", "-p", "x=1,2", "--send", "a", "--", "echo", "{x}").works()
    stayer("add", "--id", "t", "--send", "a", "--", "true").works()
    stayer("clone", "t", "--id", "like").works()
    stayer("clone", "t", "--id", "other", "--send", "b").works()
    stayer("edit", "t", "--send", "b").works()
    names = {
        id: [file.name for file in task.code.files]
        for id in ("s.sweep.0", "s.sweep.1", "like", "other", "t")
        for task in store.get([id])
        if task is not None and task.code is not None
    }
    assert names == {"s.sweep.0": ["a"], "s.sweep.1": ["a"], "like": ["a"], "other": ["b"],
                     "t": ["b"]}  # fmt: skip


def test_a_file_goes_over_http_by_its_hash(site: Site, fleet: CodeFleet) -> None:
    data = b",[{" * 200_000
    sha256 = hashlib.sha256(data).hexdigest()
    path = f"/v1/files/{sha256}"
    site("PUT", path, role="read", body=data).is_problem(403, "forbidden")
    site("PUT", path, role="submit").is_problem(404, "unknown-file", "send it first")
    site("PUT", path, role="submit", body=data + b"!").is_problem(
        400, "bad-input", "another sha256"
    )
    site("PUT", "/v1/files/..", role="submit", body=data).is_problem(400, "bad-input", "64")
    assert fleet.store.get_file(sha256) is None

    assert site("PUT", path, role="submit", body=data).status == 204
    assert site("PUT", path, role="submit").status == 204
    assert fleet.store.get_file(sha256) == data
    answer = site("GET", path, role="read")
    assert (answer.status, answer.body) == (200, data)
    body = {"command": ["true"], "code": {"files": [{"name": "a", "sha256": "1" * 64, "size": 1}]}}
    site("POST", "/v1/tasks", role="submit", body=body).is_problem(400, "bad-input", "first")


def test_a_program_sends_a_file(fleet: CodeFleet, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("abc")
    with package.Client(fleet.url) as client:
        sent = client.send_file(tmp_path / "words.txt", "in/words")
        task = client.get_queue("default").submit(
            command=["cat", "in/words"], code=package.Code(files=(sent,))
        )
    fleet.worker("one")
    fleet.completed(task.id)
    assert fleet.log(task.id) == "abc"


def test_what_cant_be_sent_is_said(stayer: Here, folder: Path) -> None:
    (folder / "large").write_bytes(b"")
    os.truncate(folder / "large", FILE_LIMIT + 1)
    stayer("add", "--send", "large", "--", "true").refuses("more can't be sent")
    stayer("add", "--send", ".", "--", "true").refuses("is a folder")
    stayer("add", "--send", "none", "--", "true").refuses("No such file")


@pytest.mark.parametrize(
    "name", ["../a", "/etc/passwd", "a/../b", "", "a//b", "./a", "a\0b", "a\n", "漢" * 100]
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check("code", Code(files=(SentFile(name, "0" * 64, 1),)))


def test_files_that_dont_go_together_are_refused() -> None:
    one = SentFile("a", "0" * 64, 1)
    for files in ((one, one), (one, SentFile("a/b", "0" * 64, 1)), [{"name": "a"}],
                  (SentFile("a", "../../x", 1),)):  # fmt: skip
        with pytest.raises(BadInput):
            check("code", Code(files=files))  # type: ignore[arg-type]
    many = tuple(SentFile(f"{n}", "0" * 64, FILE_LIMIT) for n in range(5))
    with pytest.raises(TooLarge):
        check("code", Code(files=many))
