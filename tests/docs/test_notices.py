"""What the page about notices says works."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from stayer.core.notify import notices
from tests.docs.pages import Block, blocks, section, text
from tests.docs.reader import Reader
from tests.docs.test_snippets import until
from tests.notify.mail_server import MailServer, mail_serving
from tests.notify.receiver import unused_port

PAGE = "how-to/notifications-and-webhooks.md"


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_serving() as found:
        yield found


def test_mail_comes_when_a_task_ends(reader: Reader, server: MailServer) -> None:
    (reader.folder / "mail-password").write_text("s3cret\n")
    for block in blocks(PAGE):
        if block.language == "json" or block.title == "receiver.py":
            continue
        if "hosts" in block.code:
            (reader.folder / "notice-secrets").write_text(reader.run("stayer notices secret"))
        mine = f"smtp://127.0.0.1:{server.port}"
        code = block.code.replace("smtp://mail.example.org", mine)
        code = code.replace("[notices]\nhosts", "hosts")  # she adds it to what she has
        reader.follow(replace(block, code=code))
    first, second = (came.message for came in server.came[:2])
    assert (first["To"], first["From"]) == ("ann@example.org", "stayer@example.org")
    assert first["Subject"] == "sample complete [queue sample, attempt 1]"
    assert second["Subject"].startswith("night-run (make) failed: ")
    assert "stayer log night-run" in second.get_content()
    assert (reader.folder / "ended-tasks").read_text().startswith("sample complete")
    assert reader.run("python3 runs.py") == "('ended:mail', 'started:phone')\n"


def test_a_receiver_knows_who_calls(reader: Reader) -> None:
    [receiver] = [block for block in blocks(PAGE) if block.title == "receiver.py"]
    reader.follow(receiver)
    right, wrong = (reader.run("stayer notices secret").strip() for _ in range(2))
    port = unused_port()
    log = reader.folder / "received"
    process = reader.start("receiver.py", str(port), right, log=log)
    try:
        hook = f'url = "http://127.0.0.1:{port}/"'
        secrets = {"right": f'"{right}"', "wrong": f'"{wrong}"', "both": f'["{wrong}", "{right}"]'}
        toml = "".join(f"[hooks.{n}]\n{hook}\nsecret = {each}\n" for n, each in secrets.items())
        reader.follow(Block("toml", "", toml))
        until(lambda: "204" in reader.run("stayer notices test right || true"))
        assert "401" in reader.run("stayer notices test wrong", expected=1)
        assert "204" in reader.run("stayer notices test both")
        received = [line.partition(" ") for line in log.read_text().splitlines() if "{" in line]
        assert [said for said, _, _ in received] == ["genuine", "forged", "genuine"]
        assert json.loads(received[0][2])["type"] == "task.complete"
    finally:
        process.kill()
        process.wait()


def test_every_word_is_documented() -> None:
    table = text(PAGE).partition("| word |")[2].partition("\n\n")[0]
    named = [word for line in table.splitlines() for word in line.split("|")[1:2]]
    found = {word.strip(" `,") for cell in named for word in cell.split(",")}
    assert {word.partition("=")[0] for word in found} - {"", "---"} == {*notices.WORDS}


def test_every_key_of_a_notice_is_documented() -> None:
    said = section("reference/json.md", "## A notice")
    shown = notices.notice_record(
        notices.Notice(id="", task="", queue="", event="", to="", attempt=1, at=0.0)
    )
    for key in shown:
        assert f"`{key}`" in said


def test_every_setting_is_documented() -> None:
    from stayer.core.notify import hooks

    page = "reference/configuration.md"
    for heading, fields in (
        ("### The tables `[hooks.NAME]`", hooks.HOOK_FIELDS),
        ("### The table `[notices]`", hooks.RULE_FIELDS),
    ):
        said = section(page, heading)
        for field in fields:
            assert f"`{field}`" in said
