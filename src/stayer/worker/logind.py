"""Hearing from logind that this machine is about to sleep, and having it wait for us a moment.

Just as much of D-Bus as that takes: calls with texts as arguments, one signal, and a descriptor
that comes with an answer. Where there is no system bus, or no logind, nothing of this is there.
"""

from __future__ import annotations

import array
import os
import socket
import struct

_ADDRESS = "unix:path=/run/dbus/system_bus_socket"
_LOGIND = "org.freedesktop.login1"
_MANAGER = "/org/freedesktop/login1", "org.freedesktop.login1.Manager", _LOGIND
_BUS = "/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus"
_SIGNAL = "PrepareForSleep"
_MATCH_RULE = f"type='signal',sender='{_LOGIND}',interface='{_MANAGER[1]}',member='{_SIGNAL}'"
_CALL, _ANSWER, _ERROR, _SIGNALLED = 1, 2, 3, 4
_PATH, _INTERFACE, _MEMBER, _DESTINATION, _SIGNATURE = 1, 2, 3, 6, 8
_FORBIDDEN = b"Error.AccessDenied", b"Error.InteractiveAuthorizationRequired"
_FIXED_HEADER_BYTES = 16
_MESSAGE_LIMIT_BYTES = 1 << 20
_ANSWER_TIMEOUT_S = 10.0


class Logind:
    """A connection to the system bus; OSError if there is none, or it says something odd."""

    def __init__(self, address: str | None = None) -> None:
        wanted = address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _ADDRESS
        path = wanted.partition("path=")[2].partition(",")[0].partition(";")[0]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_ANSWER_TIMEOUT_S)
        self._serial = 0
        self._buffer = b""
        self._descriptors: list[int] = []
        try:
            self._socket.connect(path)
            self._authenticate()
            self._ask(_BUS, "Hello")
            self._ask(_BUS, "AddMatch", _MATCH_RULE)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def delay_sleep(self) -> int:
        """Return a descriptor: until it is closed, or a few seconds are over, the machine stays
        awake. PermissionError if this user may not ask for that.
        """
        arguments = ("sleep", "Stayer", "tasks are stopped before the machine sleeps", "delay")
        self._ask(_MANAGER, "Inhibit", *arguments)
        if not self._descriptors:
            raise OSError("logind gave no lock")
        return self._descriptors.pop(0)

    def wait(self) -> bool:
        """Wait until logind says that the machine falls asleep (True), or has woken up (False)."""
        self._socket.settimeout(None)
        try:
            while True:
                kind, fields, body = self._receive()
                if kind == _SIGNALLED and _SIGNAL.encode() in fields and len(body) >= 4:
                    return body[:4] != bytes(4)
        finally:
            self._socket.settimeout(_ANSWER_TIMEOUT_S)

    def _authenticate(self) -> None:
        user = str(os.getuid()).encode().hex()
        for words, wanted in (
            (f"\0AUTH EXTERNAL {user}", b"OK"),
            ("NEGOTIATE_UNIX_FD", b"AGREE_UNIX_FD"),
        ):
            self._socket.sendall(f"{words}\r\n".encode())
            while b"\r\n" not in self._buffer:
                self._read_more()
            line, _, self._buffer = self._buffer.partition(b"\r\n")
            if not line.startswith(wanted):
                raise OSError(f"the system bus refused {words.strip(chr(0)).split()[0]}")
        self._socket.sendall(b"BEGIN\r\n")

    def _ask(self, whom: tuple[str, str, str], member: str, *texts: str) -> None:
        """Call, and wait for the answer; signals that come first are not for us yet."""
        self._serial += 1
        self._socket.sendall(_call(self._serial, *whom, member, texts))
        while True:
            kind, fields, _ = self._receive()
            if kind == _ERROR:
                is_forbidden = any(name in fields for name in _FORBIDDEN)
                raise (PermissionError if is_forbidden else OSError)(f"{member} was refused")
            if kind == _ANSWER:
                return

    def _receive(self) -> tuple[int, bytes, bytes]:
        """Receive a message: its kind, its header fields and its body."""
        while len(self._buffer) < _FIXED_HEADER_BYTES:
            self._read_more()
        order = "<" if self._buffer[:1] == b"l" else ">"
        body, _, fields = struct.unpack(f"{order}3I", self._buffer[4:_FIXED_HEADER_BYTES])
        start = _FIXED_HEADER_BYTES + fields + -fields % 8
        if start + body > _MESSAGE_LIMIT_BYTES:
            raise OSError("the system bus says too much")
        while len(self._buffer) < start + body:
            self._read_more()
        message, self._buffer = self._buffer[: start + body], self._buffer[start + body :]
        return (
            message[1],
            message[_FIXED_HEADER_BYTES : _FIXED_HEADER_BYTES + fields],
            message[start:],
        )

    def _read_more(self) -> None:
        number = array.array("i")
        room = socket.CMSG_SPACE(8 * number.itemsize)
        found, more, _, _ = self._socket.recvmsg(65536, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in more:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                number.frombytes(data[: len(data) - len(data) % number.itemsize])
        self._descriptors += number
        if not found:
            raise OSError("the system bus has hung up")
        self._buffer += found


def _call(
    serial: int, path: str, interface: str, destination: str, member: str, texts: tuple[str, ...]
) -> bytes:
    """Make a method call with texts as its arguments."""
    body = b""
    for text in texts:
        body = _pad(body, 4) + _text(text)
    named = [(_PATH, "o", path), (_INTERFACE, "s", interface), (_MEMBER, "s", member)]
    fields = b""
    for code, kind, value in [*named, (_DESTINATION, "s", destination)]:
        fields = _pad(fields, 8) + bytes((code, 1)) + kind.encode() + b"\0" + _text(value)
    if texts:
        signature = bytes((len(texts),)) + b"s" * len(texts) + b"\0"
        fields = _pad(fields, 8) + bytes((_SIGNATURE, 1)) + b"g\0" + signature
    fixed = struct.pack("<4B3I", ord("l"), _CALL, 0, 1, len(body), serial, len(fields))
    return _pad(fixed + fields, 8) + body


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode() + b"\0"


def _pad(data: bytes, width: int) -> bytes:
    return data + bytes(-len(data) % width)
