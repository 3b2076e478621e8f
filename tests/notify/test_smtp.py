"""One try at telling somebody by mail, and mail as part of delivering."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.config import load
from stayer.core.errors import BadConfig, BadInput
from stayer.core.model import Fault, Task
from stayer.core.notify.hooks import read_hook
from stayer.core.notify.mail import PASSWORD_VARIABLE, Mail, text
from stayer.core.notify.notices import Notice, notice_record_of
from stayer.service.notify.deliverer import try_once
from stayer.service.notify.settings import Whom, read_config
from stayer.service.notify.smtp import message, send
from stayer.service.notify.webhook import Answered
from tests.notify.mail_server import MailServer, mail_serving
from tests.notify.receiver import unused_port

ANN, BEN = "ann@example.org", "ben@example.org"


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_serving() as found:
        yield found


def mail_to(server: MailServer, *, scheme: str = "smtp", **more: Any) -> Mail:
    table = {"url": f"{scheme}://127.0.0.1:{server.port}", "from": "stayer@example.org", "to": ANN}
    found = read_hook("mail", {**table, **more}).mail
    assert found is not None
    return found


def told(server: MailServer, notice: Notice, *passwords: str, **more: Any) -> Answered:
    return send(mail_to(server, **more), passwords, notice, 30.0)


class TestWhatIsSent:
    def test_says_what_happened_and_where_to_look(self, server: MailServer, notice: Notice) -> None:
        task = Task(
            id="a/b", queue="q", name="train", state="failed", ending="error", attempt=2,
            started_at=1000.0, finished_at=4661.0, node="gpu-7",
            error=Fault("ValueError", "no\nluck", "Traceback\n\x1b[31mlast line é"),
        )  # fmt: skip
        notice = replace(notice, task=task.id, record=notice_record_of(task))
        page = "https://stayer.example.org/"
        assert told(server, notice, to=[ANN, BEN], page=page) == Answered(
            True, f"mail to {ANN}, {BEN}"
        )
        [came] = server.came
        assert (came.sender, came.to) == ("stayer@example.org", (ANN, BEN))
        message = came.message
        assert message["To"] == f"{ANN}, {BEN}"
        assert message["Subject"].startswith("a/b (train) failed: ValueError: no luck")
        assert message["Auto-Submitted"] == "auto-generated"
        body = message.get_content()
        for line in (
            "task:       a/b", "state:      failed (error)", "duration:   1h 01m",
            "node:       gpu-7", "error:      ValueError: no luck", "  \\x1b[31mlast line é",
            "  stayer show a/b",
            "  https://stayer.example.org/#/task/a%2Fb",
        ):  # fmt: skip
            assert line in body.splitlines()

    @pytest.mark.parametrize(
        "word",
        [
            "=?utf-8?q?a=0D=0ABcc:_eve@example.org?=",
            "=?utf-8?b?DQpCY2M6IGV2ZUBleGFtcGxlLm9yZw==?=",
            "=?utf-8?q?a=0D=0A=0D=0Ayour_password_has_expired?=",
            '"=?utf-8?q?=0A?="',
            "=?utf-8?q?=ff?=" * 9,
            "==??utf-8?q?=0D=0ABcc:_eve@example.org?=",
        ],
    )
    def test_a_task_writes_no_header_and_no_body(self, word: str, notice: Notice) -> None:
        to = read_hook("mail", {"url": "smtp://localhost", "from": ANN, "to": BEN}).mail
        assert to is not None
        record = {"name": word, "error": {"type": word, "message": word * 5, "traceback": word}}
        notice = replace(notice, id=f"{word}\r\nBcc: x", task=word, queue=word, record=record)
        head = message(to, notice).as_bytes().partition(b"\r\n\r\n")[0]
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b" ")]
        assert {line.partition(b":")[0].decode() for line in lines} == {
            "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version",
            "Content-Type", "Content-Transfer-Encoding",
        }  # fmt: skip
        assert not re.search(rb"[\r\n\0](?![\r\n ])", head.replace(b"\r\n", b""))

    def test_has_the_result_of_what_is_complete(self, notice: Notice) -> None:
        task = Task(id="t", queue="q", state="complete", ending="done", result={"loss": 0.5})
        said = text(replace(notice, event="complete", record=notice_record_of(task)))
        assert 'result:     {"loss":0.5}' in said
        assert "state:      complete\n" in said
        assert "error" not in said
        record = {**notice_record_of(task), "result": None, "left_out": ["result"]}
        assert "result:     too long" in text(replace(notice, record=record))

    def test_is_the_same_mail_at_each_try(self, server: MailServer, notice: Notice) -> None:
        for _ in range(2):
            assert told(server, notice).delivered
        one, two = (came.message for came in server.came)
        assert one.as_string() == two.as_string()
        assert notice.id in one["Message-ID"]


class TestWhatComesOfIt:
    def test_a_server_that_never_comes_to_an_end_is_left(
        self, server: MailServer, notice: Notice
    ) -> None:
        server.replies = {"MAIL": ["\r\n".join(["250-and " * 1000] * 200)] * 2}
        answered = told(server, notice)
        assert (answered.delivered, answered.final) == (False, False)
        assert "says more than 1,000,000 bytes" in answered.summary

    @pytest.mark.parametrize(
        ("command", "reply", "final"),
        [
            ("MAIL", "451 later", False),
            ("MAIL", "550 not from you", True),
            ("RCPT", "450 mailbox busy", False),
            ("RCPT", "550 nobody here", True),
            ("EHLO", "421 going down", False),
        ],
    )
    def test_a_refusal_is_told_from_a_delay(
        self, server: MailServer, notice: Notice, command: str, reply: str, final: bool
    ) -> None:
        server.replies = {command: [reply] * 2, "HELO": ["421 going down"]}
        answered = told(server, notice)
        assert (answered.delivered, answered.final) == (False, final)
        assert reply in answered.summary
        assert server.came == []
        server.replies = {}
        assert told(server, notice).delivered

    def test_some_may_be_reached_and_others_not(self, server: MailServer, notice: Notice) -> None:
        # Who can't be reached now is tried again
        server.replies = {f"RCPT TO:<{BEN}": ["450 later", "550 nobody here"]}
        answered = told(server, notice, to=[ANN, BEN])
        assert answered == Answered(False, f"{BEN}: 450 later")
        # Who never will be keeps nobody busy
        answered = told(server, notice, to=[ANN, BEN])
        assert answered == Answered(True, f"mail to {ANN}, but not to {BEN}: 550 nobody here")

    def test_whoever_is_not_there_is_tried_again(self, notice: Notice) -> None:
        url = f"smtp://127.0.0.1:{unused_port()}"
        mail = read_hook("mail", {"url": url, "from": ANN, "to": BEN}).mail
        assert mail is not None
        answered = send(mail, (), notice, 30.0)
        assert (answered.delivered, answered.final) == (False, False)
        assert "refused" in answered.summary


class TestWithAPassword:
    def test_is_sent_only_over_tls(
        self,
        certificate: tuple[Path, Path],
        notice: Notice,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        with mail_serving(*certificate) as server:
            server.passwords = {"ann": "s3cret"}
            given = {"user": "ann", "starttls": True}
            # Given a certificate that nobody vouches for
            answered = told(server, notice, "s3cret", **given)
            assert "CERTIFICATE_VERIFY_FAILED" in answered.summary
            # When it is trusted
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
            assert told(server, notice, "s3cret", **given).delivered
            [came] = server.came
            assert (came.user, came.is_encrypted) == ("ann", True)
            # A wrong password may be put right
            assert told(server, notice, "wrong", **given) == Answered(False, "535 not you")
            server.tls = None
            answered = told(server, notice, "s3cret", **given)
            assert not answered.delivered
            assert "offers no STARTTLS" in answered.summary
            # Only to this machine it goes unencrypted, unless that is said
            assert told(server, notice, "s3cret", user="ann").delivered
            assert not server.came[-1].is_encrypted

    def test_smtps_is_encrypted_from_the_beginning(
        self, certificate: tuple[Path, Path], notice: Notice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        with mail_serving(*certificate, tls_at_once=True) as server:
            assert told(server, notice, scheme="smtps").delivered
            assert server.came[0].is_encrypted

    def test_it_comes_from_a_file_or_the_environment(
        self, server: MailServer, notice: Notice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.passwords = {"ann": "s3cret"}
        monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
        (tmp_path / "word").write_text("s3cret\n")
        file = tmp_path / "stayer.toml"
        hook = (
            f'[hooks.m]\nurl = "smtp://ann@127.0.0.1:{server.port}"\nfrom = "{ANN}"\nto = "{BEN}"\n'
        )

        def whom(more: str = "") -> Whom:
            file.write_text(hook + more)
            return read_config(load({"config": str(file)}, {}))

        notice = replace(notice, to="m")
        assert try_once(whom('password_file = "word"\n'), notice).delivered
        with pytest.raises(BadConfig, match=f"hooks.m: .* ann: .*{PASSWORD_VARIABLE}"):
            whom()
        with pytest.raises(BadConfig, match="none can't be read"):
            whom('password_file = "none"\n')
        monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
        assert try_once(whom(), notice).delivered
        assert [came.user for came in server.came] == ["ann", "ann"]


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("smtp://m.example", {"to": None}, "to is missing"),
        ("smtp://m.example", {"from": None}, "from is missing"),
        ("smtp://m.example", {"to": "ann"}, "to: 'ann' is no address"),
        ("smtp://m.example", {"to": []}, "to: name at least one"),
        ("smtp://m.example", {"to": "a@b\r\nBcc: c@d"}, "no address"),
        ("smtp://m.example/x?pw", {}, "no more"),
        ("smtp://", {}, "no more"),
        ("smtp://m.example:port", {}, "no more"),
        ("smtp://m.example", {"password": "pw"}, "user is missing"),
        ("smtp://u:pw@m.example", {"password_file": "f"}, "password_file and in url"),
        ("smtp://u@m.example", {"user": "v"}, "once"),
        ("smtps://m.example", {"starttls": True}, "starttls goes with smtp://"),
        ("smtp://m.example", {"format": "text"}, "format goes with a URL, not with mail"),
        ("https://m.example", {}, "from goes with mail, not with a URL"),
        ("smtp://m.example", {"page": "stayer"}, "page: 'stayer' is no URL"),
    ],
)
def test_what_makes_no_sense_is_refused(url: str, more: dict[str, Any], words: str) -> None:
    table = {"url": url, "from": ANN, "to": BEN, **more}
    with pytest.raises(BadInput) as refused:
        read_hook("mail", {name: value for name, value in table.items() if value is not None})
    assert words in str(refused.value)
    assert "pw" not in str(refused.value)


def test_the_port_is_the_usual_one() -> None:
    def port(url: str) -> int:
        mail = read_hook("mail", {"url": url, "from": ANN, "to": BEN}).mail
        assert mail is not None
        return mail.port

    assert [port(f"{each}m.example") for each in ("smtp://", "smtp://u:p@", "smtps://")] == [
        25, 587, 465,
    ]  # fmt: skip
    assert port("smtp://m.example:2525") == 2525
    table = {"url": "smtp://ann%40example.org:p%C3%A4%2F@[::1]:25/", "from": ANN, "to": BEN}
    mail = read_hook("mail", table).mail
    assert mail is not None
    assert (mail.user, mail.password, mail.host) == ("ann@example.org", "pä/", "::1")
