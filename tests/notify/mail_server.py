"""A real mail server that takes mail for nobody else, and refuses what it is told to refuse."""

from __future__ import annotations

import base64
import email
import email.policy
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from pathlib import Path
from typing import NamedTuple

from tests.notify.receiver import PATIENCE


class Came(NamedTuple):
    """A mail, and how it came."""

    sender: str
    to: tuple[str, ...]
    message: EmailMessage
    user: str | None
    is_encrypted: bool


class MailServer:
    """Keeps the mail that came. `replies` has what it says, once each, instead of yes."""

    def __init__(self, tls: ssl.SSLContext | None = None, *, tls_at_once: bool = False) -> None:
        self.came: list[Came] = []
        self.replies: dict[str, list[str]] = {}
        """By the beginning of a command, such as `RCPT TO:<ann`."""
        self.passwords: dict[str, str] = {}
        self.tls, self.tls_at_once = tls, tls_at_once
        self._changed = threading.Condition()
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                session = _Session(server, self.request)
                with suppress(OSError, EOFError):
                    session.serve()
                session.close()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def keep(self, mail: Came) -> None:
        with self._changed:
            self.came.append(mail)
            self._changed.notify_all()

    def await_number(self, number: int) -> list[Came]:
        """So many, or more, must come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.came) >= number, PATIENCE)
            return list(self.came)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Session:
    def __init__(self, server: MailServer, stream: ssl.SSLSocket) -> None:
        self._server, self._stream = server, stream
        self._user: str | None = None
        self._sender, self._to = "", list[str]()
        self._is_encrypted = False
        self._lines = stream.makefile("rb")

    def serve(self) -> None:
        if self._server.tls_at_once:
            self._encrypt()
        self._say("220 ready")
        while line := self._lines.readline():
            command = line.decode().rstrip("\r\n")
            if command.upper() == "QUIT":
                return self._say("221 bye")
            self._say(self._refusal(command) or self._answer(command))
            if command == "STARTTLS":
                self._encrypt()

    def close(self) -> None:
        self._lines.close()
        self._stream.close()

    def _say(self, reply: str) -> None:
        self._stream.sendall(reply.encode() + b"\r\n")

    def _refusal(self, command: str) -> str | None:
        for beginning, replies in self._server.replies.items():
            if command.upper().startswith(beginning.upper()) and replies:
                return replies.pop(0)
        return None

    def _encrypt(self) -> None:
        assert self._server.tls is not None
        self._lines.close()
        self._stream = self._server.tls.wrap_socket(self._stream, server_side=True)
        self._lines = self._stream.makefile("rb")
        self._is_encrypted = True

    def _answer(self, command: str) -> str:
        verb, _, rest = command.partition(" ")
        address = rest.partition("<")[2].partition(">")[0]
        match verb.upper():
            case "EHLO":
                offers = ["STARTTLS"] if self._server.tls and not self._is_encrypted else []
                offers += ["AUTH PLAIN"] if self._server.passwords else []
                return "\r\n".join(
                    ["250-here", *(f"250-{each}" for each in offers), "250 8BITMIME"]
                )
            case "AUTH":
                _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
                if self._server.passwords.get(user) != password:
                    return "535 not you"
                self._user = user
                return "235 welcome"
            case "MAIL":
                if self._server.passwords and self._user is None:
                    return "530 who are you?"
                self._sender, self._to = address, []
            case "RCPT":
                self._to.append(address)
            case "DATA":
                self._say("354 go on")
                self._take()
            case "STARTTLS":
                return "220 go on"
            case _:
                return "250 yes"
        return "250 yes"

    def _take(self) -> None:
        lines = []
        while (line := self._lines.readline()) != b".\r\n":
            if not line:
                raise EOFError
            lines.append(line.removeprefix(b"."))
        message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        self._server.keep(
            Came(
                self._sender, tuple(self._to), message, self._user,
                self._is_encrypted,
            )
        )  # fmt: skip


@contextmanager
def mail_serving(
    certificate: Path | None = None, key: Path | None = None, *, tls_at_once: bool = False
) -> Iterator[MailServer]:
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
    server = MailServer(tls, tls_at_once=tls_at_once)
    try:
        yield server
    finally:
        server.close()
