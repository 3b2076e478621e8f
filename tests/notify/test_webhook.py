"""One try at telling a URL, against a real receiver."""

from __future__ import annotations

import email.utils
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.notify.hooks import Hook
from stayer.core.notify.notices import Notice
from stayer.service.notify.webhook import Answered, Forbidden, check_host, send
from tests.notify.receiver import Receiver, drip, hang, raw, status, unused_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


def told(receiver: Receiver, notice: Notice, *secrets: str, **hook: Any) -> Answered:
    return send(Hook(name="hook", url=receiver.url, **hook), secrets, notice)


class TestWhatIsSent:
    def test_is_the_record_in_the_words_of_every_door(
        self, receiver: Receiver, notice: Notice
    ) -> None:
        assert told(receiver, notice) == Answered(True, "200 OK")
        [came] = receiver.received
        assert came.path == "/hook?from=test"
        assert came.headers["content-type"] == "application/json"
        assert came.headers["host"] == f"127.0.0.1:{receiver.port}"
        assert came.headers["webhook-id"] == came.json["id"] == notice.id
        assert abs(int(came.headers["webhook-timestamp"]) - time.time()) < 600
        assert came.json["type"] == "task.failed"
        assert came.json["timestamp"] == "2023-11-14T22:13:20.000Z"
        data = came.json["data"]
        assert (data["id"], data["queue"], data["parameters"]) == ("t", "q", {"n": 1})
        assert "webhook-signature" not in came.headers

    def test_is_signed_with_every_secret(self, receiver: Receiver, notice: Notice) -> None:
        told(receiver, notice, SECRET, OLD_SECRET)
        [came] = receiver.received
        assert came.is_signed_with(SECRET)
        assert came.is_signed_with(OLD_SECRET)
        assert not came.is_signed_with(SECRET.replace("M", "N"))
        changed = came._replace(body=came.body.replace(b"failed", b"closed"))
        assert not changed.is_signed_with(SECRET)

    def test_the_signature_is_that_of_the_standard(self) -> None:
        """The example of the specification."""
        from stayer.service.notify.webhook import signature

        body = b'{"test": 2432232314}'
        assert signature([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == (
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        )

    @pytest.mark.parametrize(
        ("form", "body"),
        [
            ("text", b"t (train) failed [queue q, attempt 2]"),
            ("slack", b'{"text":"t (train) failed [queue q, attempt 2]"}'),
        ],
    )
    def test_may_be_a_line_for_people(
        self, receiver: Receiver, notice: Notice, form: Any, body: bytes
    ) -> None:
        told(receiver, notice, SECRET, format=form, headers={"Authorization": "Bearer x"})
        [came] = receiver.received
        assert came.body == body
        assert came.headers["authorization"] == "Bearer x"
        assert came.is_signed_with(SECRET)

    def test_calls_and_links_nobody_in_a_chat(self, receiver: Receiver, notice: Notice) -> None:
        record = {**notice.record, "name": "<!channel> & <https://elsewhere|here>"}
        told(receiver, replace(notice, record=record), format="slack")
        [came] = receiver.received
        assert b"&lt;!channel&gt; &amp; &lt;https://elsewhere|here&gt;" in came.body


class TestAnswers:
    @pytest.mark.parametrize("code", [200, 201, 202, 204])
    def test_any_success_is_one(self, receiver: Receiver, notice: Notice, code: int) -> None:
        receiver.answers = [status(code)]
        assert told(receiver, notice).delivered

    @pytest.mark.parametrize("code", [400, 401, 404, 408, 429, 500, 503])
    def test_what_is_none_is_tried_again(
        self, receiver: Receiver, notice: Notice, code: int
    ) -> None:
        receiver.answers = [status(code, b"not now")]
        answered = told(receiver, notice)
        assert (answered.delivered, answered.final) == (False, False)
        assert answered.summary.startswith(str(code))
        assert answered.summary.endswith(": not now")

    def test_gone_is_for_good(self, receiver: Receiver, notice: Notice) -> None:
        receiver.answers = [status(410)]
        assert told(receiver, notice) == Answered(False, "410 Gone", final=True)

    def test_nobody_is_followed_elsewhere(self, receiver: Receiver, notice: Notice) -> None:
        receiver.answers = [status(302, Location="/elsewhere")]
        answered = told(receiver, notice)
        assert not answered.delivered
        assert "/elsewhere" in answered.summary
        assert len(receiver.received) == 1

    def test_a_receiver_may_ask_for_peace(self, receiver: Receiver, notice: Notice) -> None:
        later = email.utils.formatdate(time.time() + 3600, usegmt=True)
        receiver.answers = [
            status(429, Retry_After="120"),
            status(503, Retry_After=later),
            status(429, Retry_After="99999999"),
            status(429, Retry_After="soon"),
        ]
        assert told(receiver, notice).after == 120
        assert 3000 < (told(receiver, notice).after or 0) <= 3600
        assert told(receiver, notice).after == 86400
        assert told(receiver, notice).after is None

    def test_little_is_read_of_a_long_answer(self, receiver: Receiver, notice: Notice) -> None:
        receiver.answers = [status(500, b"x" * 3_000_000)]
        answered = told(receiver, notice)
        assert 1000 < len(answered.summary) < 3000

    @pytest.mark.parametrize(
        "data",
        [b"", b"\r\n\r\n", b"garbage\r\n\r\n", b"HTTP/1.1 999999 X\r\n\r\n",
         b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500],
    )  # fmt: skip
    def test_nonsense_is_no_success(self, receiver: Receiver, notice: Notice, data: bytes) -> None:
        receiver.answers = [raw(data)]
        answered = told(receiver, notice)
        assert (answered.delivered, answered.final) == (False, False)
        assert answered.summary

    def test_whoever_is_not_there_is_tried_again(self, notice: Notice) -> None:
        answered = send(Hook(name="h", url=f"http://127.0.0.1:{unused_port()}/"), (), notice)
        assert (answered.delivered, answered.final) == (False, False)
        assert "refused" in answered.summary

    def test_a_name_that_nobody_has_is_tried_again(self, notice: Notice) -> None:
        answered = send(Hook(name="h", url="http://nobody.invalid/"), (), notice)
        assert (answered.delivered, answered.final) == (False, False)

    @pytest.mark.parametrize("how", [hang, drip])
    def test_patience_ends(self, receiver: Receiver, notice: Notice, how: Any) -> None:
        receiver.answers = [how(receiver.over)]
        before = threading.active_count()  # other tests of this process leave some
        answered = told(receiver, notice, time_limit=0.3)
        assert answered == Answered(False, "no answer within 0.3s")
        assert threading.active_count() < before + 20

    def test_who_speaks_no_tls_is_not_told(self, receiver: Receiver, notice: Notice) -> None:
        answered = send(Hook(name="h", url=f"https://127.0.0.1:{receiver.port}/"), (), notice)
        assert not answered.delivered
        assert "SSL" in answered.summary
        assert receiver.received == []

    def test_a_certificate_must_be_known(
        self,
        receiver: Receiver,
        notice: Notice,
        certificate: tuple[Path, Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # Given a receiver with a certificate of its own making
        public, private = certificate
        receiver.use_tls(public, private)
        hook = Hook(name="h", url=f"https://127.0.0.1:{receiver.port}/x")

        # Then it is told only if that is trusted here
        answered = send(hook, (), notice)
        assert "CERTIFICATE_VERIFY_FAILED" in answered.summary
        assert receiver.received == []
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        assert send(hook, (), notice) == Answered(True, "200 OK")
        assert receiver.received[0].headers["host"] == f"127.0.0.1:{receiver.port}"
        receiver.answers = [hang(receiver.over)]
        assert send(replace(hook, time_limit=0.5), (), notice).summary == "no answer within 0.5s"


class TestWhereTasksMayLead:
    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "0.0.0.0", "[::ffff:127.0.0.1]",
         "[::ffff:7f00:1]"],
    )  # fmt: skip
    def test_not_to_this_machine_however_it_is_written(
        self, receiver: Receiver, notice: Notice, host: str
    ) -> None:
        hook = Hook(name="", url=f"http://{host}:{receiver.port}/")
        answered = send(hook, (), notice, partial(check_host, None))
        if "has no address" not in answered.summary and "gaierror" not in answered.summary:
            assert answered.final
            assert "this machine or network" in answered.summary
        assert receiver.received == []

    @pytest.mark.parametrize(
        "address",
        ["10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
         "255.255.255.255", "fe80::1", "fc00::1", "ff02::1", "::", "64:ff9b::7f00:1",
         "fec0::1", "feff::1", "64:ff9b:1::7f00:1", "::127.0.0.1", "::ffff:0:7f00:1", "ff0e::1",
         "2002:a00:1::", "2001:0:808:808::f5ff:fffe", "3fff::1", "5f00::1", "100::1", "4000::1",
         "192.0.0.8", "192.88.99.1", "198.18.0.1",
         "2002:7f00:1::", "2002:a00:1::1"],
    )  # fmt: skip
    def test_nor_to_this_network(self, address: str) -> None:
        with pytest.raises(Forbidden, match="network"):
            check_host(None, "inside.example", ["93.184.216.34", address])

    @pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
    def test_but_to_the_world(self, address: str) -> None:
        check_host(None, "outside.example", [address])

    @pytest.mark.parametrize(
        "allowed", [["127.0.0.1"], ["127.0.0.0/8"], ["10.0.0.0/8", "127.0.0.*"], ["*"]]
    )
    def test_and_where_the_configuration_says(
        self, receiver: Receiver, notice: Notice, allowed: list[str]
    ) -> None:
        hook = Hook(name="", url=receiver.url)
        assert send(hook, (), notice, partial(check_host, allowed)).delivered

    @pytest.mark.parametrize("allowed", [[], ["example.org"], ["10.0.0.0/8"], ["127.0.0.1.evil"]])
    def test_then_nowhere_else(
        self, receiver: Receiver, notice: Notice, allowed: list[str]
    ) -> None:
        hook = Hook(name="", url=receiver.url)
        answered = send(hook, (), notice, partial(check_host, allowed))
        assert answered.final
        assert "[notices]" in answered.summary
        assert receiver.received == []

    def test_names_are_compared_as_names(self) -> None:
        check_host(["*.example.org"], "Hooks.Example.org", ["10.0.0.1"])
        check_host(["hooks.example.org"], "hooks.example.org.", ["10.0.0.1"])
        with pytest.raises(Forbidden):
            check_host(["*.example.org"], "example.org.evil.net", ["93.184.216.34"])
        with pytest.raises(Forbidden):
            check_host(["10.0.0.0/8"], "both.example", ["10.0.0.1", "93.184.216.34"])

    def test_a_name_is_looked_up_once(
        self, receiver: Receiver, notice: Notice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name that leads to another address when it is asked for again leads nowhere else."""
        real, asked = socket.getaddrinfo, []

        def resolve(host: Any, *rest: Any, **more: Any) -> Any:
            asked.append(host)
            return real("127.0.0.1" if host == "rebinding.example" else host, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        hook = Hook(name="", url=f"http://rebinding.example:{receiver.port}/")
        assert send(hook, (), notice).delivered
        assert asked.count("rebinding.example") == 1
        assert receiver.received[0].headers["host"] == f"rebinding.example:{receiver.port}"
