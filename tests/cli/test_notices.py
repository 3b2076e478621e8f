"""`notices`, and `--notify` wherever it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.core.happenings import Done
from stayer.core.notify.notices import Delivery
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.contract.builders import apply, get, started
from tests.notify.mail_server import mail_serving
from tests.notify.receiver import Receiver, eventually, receiving, status


def test_hooks_are_named_when_a_task_is_added(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "t", "--notify", "mail", "--notify", "failed:https://a.example/").works()
    assert get(store, "t").notify == ("ended:mail", "failed:https://a.example/")
    assert "ended:mail failed:https://a.example/" in stayer("show", "t").works().out
    stayer("add", "--notify", "gone:mail").refuses("gone", "expired")


def test_hooks_are_changed_later(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "t").works()
    assert stayer("set", "t", "--notify", "mail").works().out == "t tells ended:mail\n"
    assert stayer("set", "t", "--notify", "none").works().out == "t tells nobody\n"
    assert get(store, "t").notify == ()
    stayer("set", "t").refuses("--notify")


def test_a_queue_tells_too(stayer: Here, store: Store) -> None:
    stayer("add", "-q", "q").works()
    told = stayer("queues", "set", "q", "--notify", "mail", "--notify", "oom:chat").works().out
    assert told == "q tells ended:mail oom:chat\n"
    assert store.queues(["q"])[0].notify == ("ended:mail", "oom:chat")
    assert stayer("queues", "set", "q", "--notify", "none").works().out == "q tells nobody\n"
    stayer("queues", "set", "q", "--notify", "a b").refuses("name")


def test_a_schedule_gives_its_tasks_hooks(stayer: Here, store: Store) -> None:
    stayer("cron", "add", "nightly", "0 2 * * *", "--notify", "failed:mail", "--", "true").works()
    id = stayer("cron", "run", "nightly").works().lines[0]
    assert get(store, id).notify == ("failed:mail",)


@pytest.mark.usefixtures("worker")
def test_notices_are_shown_retried_and_dropped(stayer: Here, store: Store) -> None:
    assert "no notices yet in" in stayer("notices").err
    assert "no such notices in" in stayer("notices", "--state", "failed").err
    for id in ("a", "b"):
        apply(store, started(store, id=id, notify=("ended:mail",)), Done())
    one, two = store.take_notices(["mail"], 10, 60, 86400)
    store.settle_notice(one, Delivery(True, "exit code 0"))
    store.settle_notice(two, Delivery(False, "410 Gone\nreally"))
    shown = stayer("notices").works()
    assert len(shown.lines) == 3
    assert "410 Gone really" in shown.out
    assert [each["id"] for each in stayer("notices", "--state", "failed", "--json").json] == [
        two.id
    ]
    [of_task] = stayer("notices", "--task", one.task, "--json").json
    assert (of_task["id"], of_task["state"]) == (one.id, "delivered")
    assert stayer("notices", "retry", two.id[:8]).works().out == "1 notice will be delivered\n"
    assert stayer("notices", "retry", "--failed").works().out == "0 notices will be delivered\n"
    assert stayer("notices", "drop", one.id, two.id).works().out == "2 notices forgotten\n"
    stayer("notices", "drop", one.id).refuses("no notice")
    stayer("notices", "retry").refuses("--failed")
    stayer("notices", "retry", "").refuses("no notice")


@pytest.mark.usefixtures("worker")
def test_the_doctor_tells_of_those_who_wait_in_vain(
    stayer: Here, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id, hook in (("a", "mail"), ("b", "typo")):
        apply(store, started(store, id=id, notify=(f"ended:{hook}",)), Done())
    assert "notice" not in stayer("doctor").out
    store.settle_notice(store.take_notices(["mail"], 1, 60, 86400)[0], Delivery(False, "410 Gone"))
    monkeypatch.setattr("stayer.cli.doctor._NOTICE_OVERDUE_S", -60.0)
    said = stayer("doctor").out
    assert "1 notice could not be delivered, the last to mail: 410 Gone" in said
    assert "1 notice to typo should have been delivered" in said


def test_a_hook_can_be_tried_out(stayer: Here, folder: Path) -> None:
    with receiving() as receiver:
        (folder / "stayer.toml").write_text(
            f'[hooks.web]\nurl = "{receiver.url}"\n[hooks.no]\ncommand = ["false"]\n'
        )
        assert stayer("notices", "test", "web").works().out == "200 OK\n"
        assert receiver.received[0].json["data"]["id"] == "sample"
        receiver.answers = [status(500)]
        failed = stayer("notices", "test", "web")
        assert (failed.code, failed.out) == (1, "")
        assert "500" in failed.err
        assert stayer("notices", "test", "no").code == 1
        stayer("notices", "test", "nobody").refuses("nobody", "web, no")
        assert "this machine or network" in stayer("notices", "test", receiver.url).err


def test_a_secret_is_made_and_kept_quiet(stayer: Here, folder: Path) -> None:
    secret = stayer("notices", "secret").works().out.strip()
    assert secret != stayer("notices", "secret").works().out.strip()
    (folder / "stayer.toml").write_text(
        f'[notices]\nsecret = "{secret}"\n[hooks.web]\nurl = "https://a.example/s3cret"\n'
        f'secret = "{secret}"\n'
    )
    for shown in (stayer("config").works().out, stayer("config", "--json").works().out):
        assert secret not in shown
        assert "s3cret" not in shown
        assert "a.example" in shown
    stayer("config", "--write", "copy.toml").works()
    assert (folder / "copy.toml").stat().st_mode & 0o077 == 0
    assert stayer("config", "--config", "copy.toml", "--json").works().json["notices.secret"]


@pytest.mark.parametrize("command", ["worker", "serve", "threads"])
def test_whoever_runs_delivers(
    apart: Apart, stayer: Here, store: Store, folder: Path, command: str
) -> None:
    with receiving() as receiver:
        (folder / "stayer.toml").write_text(
            f'[hooks.web]\nurl = "{receiver.url}"\n'
            f'[hooks.file]\ncommand = ["sh", "-c", "cat > {folder}/told"]\n'
        )
        (folder / "tasks.py").write_text(
            "import stayer\napp = stayer.App()\n@app.task\ndef f() -> None: pass\n"
        )
        stayer("add", "--id", "t", "--notify", "web", "--notify", "file").works()
        stayer("cancel", "t").works()
        words = {
            "worker": ("worker", "--allow-commands", "--state-dir", "state"),
            "threads": ("worker", "--threads", "1", "--app", "tasks", "--state-dir", "state"),
            "serve": ("serve", "--port", "0"),
        }[command]
        process = apart.start(*words)
        try:
            await_delivered(store, receiver)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert '"task.cancelled"' in (folder / "told").read_text()


def await_delivered(store: Store, receiver: Receiver) -> None:
    eventually(
        lambda: (
            [each.state for each in store.notices("t", None, None, 9).notices] == ["delivered"] * 2
        )
    )
    assert len(receiver.received) == 1


def test_nobody_delivers_who_is_told_not_to(apart: Apart, stayer: Here, folder: Path) -> None:
    (folder / "stayer.toml").write_text(
        "[notices]\ndeliver = false\n[hooks.quiet]\ncommand = ['true']\n"
    )
    stayer("add", "--id", "t", "--notify", "quiet", "--", "true").works()
    process = apart.start("worker", "--allow-commands", "--state-dir", "state")
    try:
        stayer("wait", "t").works()
        [notice] = stayer("notices", "--json").json
        assert (notice["state"], notice["tries"]) == ("pending", 0)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_doctor_checks_hooks_and_tells_nobody(stayer: Here, folder: Path) -> None:
    (folder / "word").write_text("s3cret")
    with mail_serving() as server:
        server.passwords = {"ann": "s3cret"}
        mail = (
            f'[hooks.mail]\nurl = "smtp://ann@127.0.0.1:{server.port}"\nfrom = "a@b.example"\n'
            'to = "c@d.example"\npassword_file = "word"\n'
        )
        (folder / "stayer.toml").write_text(f'{mail}[hooks.run]\ncommand = ["true"]\n')
        assert "2 hooks: mail, run" in stayer("doctor").out
        (folder / "word").write_text("wrong")
        (folder / "stayer.toml").write_text(f'{mail}[hooks.run]\ncommand = ["no-such-program"]\n')
        said = stayer("doctor").out
        assert "mail: mail server 127.0.0.1: 535 not you" in said
        assert "run: there is no program no-such-program" in said
        (folder / "word").unlink()
        assert "can't be read" in stayer("doctor").out
        assert server.came == []
    assert "mail to c@d.example" in stayer("config").works().out
