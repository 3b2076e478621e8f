"""One try at telling somebody by mail."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from functools import partial
from io import BufferedReader

from stayer.core.notify import mail
from stayer.core.notify.mail import Mail
from stayer.core.notify.notices import Notice
from stayer.core.safe_text import printable
from stayer.service.notify.connect import connect
from stayer.service.notify.webhook import Answered

_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9-]")
_REPLIES_BYTES = 1_000_000
"""How much a mail server may say in a session, in bytes."""
_FOR_GOOD = 500
"""Replies from here on mean that the same again will be refused again."""


class _NoTls(smtplib.SMTPException):
    """The server offers no encryption where there must be one."""


class _Replies:
    """What a server says, up to a limit: one reply may have any number of lines, all of which are
    kept until the last one.
    """

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._left = _REPLIES_BYTES

    def readline(self, size: int) -> bytes:
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"it says more than {_REPLIES_BYTES:,} bytes")
        return line

    def close(self) -> None:
        self._file.close()


class _Session(smtplib.SMTP):
    """A session on a connection that is there."""

    def __init__(self, host: str, stream: socket.socket) -> None:
        self._stream = stream
        super().__init__(host)

    def _get_socket(self, *_: object) -> socket.socket:
        return self._stream

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb"))
        return super().getreply()


def message(to: Mail, notice: Notice) -> EmailMessage:
    """Write the mail. Every try has the same Message-ID, so that a repetition can be told."""
    found = EmailMessage(SMTP)
    found["From"] = to.sender
    found["To"] = ", ".join(to.to)
    found["Subject"] = _plain_header(mail.subject(notice))
    found["Date"] = formatdate(notice.at)
    found["Message-ID"] = (
        f"<{_NOT_IN_AN_ID.sub('-', notice.id)}.stayer@{to.sender.rpartition('@')[2]}>"
    )
    found["Auto-Submitted"] = "auto-generated"
    found.set_content(printable(mail.text(notice, to.page), lines=True))
    return found


def _plain_header(text: str) -> str:
    """Return a text as a header may have it. Python decodes what looks like an encoded word when a
    header is set, and may write line breaks that are found in there: they would begin headers, and
    a body, of whoever has chosen the name of a task.
    """
    return printable(text).replace("=?", "= ?")


def send(to: Mail, passwords: Sequence[str], notice: Notice, time_limit: float) -> Answered:
    """Send it once."""
    return _in_session(to, passwords, time_limit, partial(_exchange, to=to, notice=notice))


def check(to: Mail, passwords: Sequence[str], time_limit: float) -> Answered:
    """Look whether the server lets us in; nothing is sent."""

    def leave(session: _Session) -> Answered:
        session.quit()
        return Answered(True, f"{to.host} answers")

    return _in_session(to, passwords, time_limit, leave)


def _in_session(
    to: Mail, passwords: Sequence[str], time_limit: float, use: Callable[[_Session], Answered]
) -> Answered:
    deadline = time.monotonic() + time_limit
    try:
        with (
            connect(to.host, to.port, to.has_tls, deadline) as stream,
            closing(_Session(to.host, stream)) as session,
        ):
            _encrypt(session, to)
            if to.user is not None:
                session.login(to.user, passwords[0])
            return use(session)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        if time.monotonic() >= deadline:
            return Answered(False, f"no answer within {time_limit:g}s")
        return _judge_error(error)


def _exchange(session: _Session, to: Mail, notice: Notice) -> Answered:
    refused = session.send_message(message(to, notice))
    with suppress(OSError, smtplib.SMTPException):  # it has taken the mail
        session.quit()
    reached = f"mail to {', '.join(each for each in to.to if each not in refused)}"
    if not refused:
        return Answered(True, reached)
    answered = _judge_recipients(refused)
    if answered.final:
        return Answered(True, f"{reached}, but not to {answered.summary}")
    return answered  # tried again, for those who were not reached: the others may hear twice


def _encrypt(session: _Session, to: Mail) -> None:
    """Begin to encrypt, unless that is so, or need not be."""
    if to.has_tls or to.starttls is False or (to.starttls is None and to.is_local):
        return
    session.ehlo_or_helo_if_needed()
    if session.has_extn("starttls"):
        session.starttls(context=ssl.create_default_context())
    elif to.starttls or to.user is not None:
        raise _NoTls(
            f"{to.host} offers no STARTTLS, so nothing is sent: use smtps://, or, if you trust "
            "all that is between, starttls = false"
        )


def _judge_error(error: Exception) -> Answered:
    match error:
        case smtplib.SMTPRecipientsRefused():
            return _judge_recipients(error.recipients)
        case smtplib.SMTPSenderRefused() | smtplib.SMTPDataError():
            said = f"{error.smtp_code} {_decoded(error.smtp_error)}"
            return Answered(False, said, final=error.smtp_code >= _FOR_GOOD)
        case smtplib.SMTPResponseException():
            # Whether the password or the server is wrong: somebody may put it right.
            return Answered(False, f"{error.smtp_code} {_decoded(error.smtp_error)}")
        case _NoTls():
            return Answered(False, str(error))
        case _:
            return Answered(False, f"{type(error).__name__}: {error}")


def _judge_recipients(refused: dict[str, tuple[int, bytes]]) -> Answered:
    summary = "; ".join(f"{who}: {code} {_decoded(said)}" for who, (code, said) in refused.items())
    return Answered(False, summary, final=all(code >= _FOR_GOOD for code, _ in refused.values()))


def _decoded(said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return " ".join(text.split())
