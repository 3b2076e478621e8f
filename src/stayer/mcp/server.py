"""The protocol: JSON-RPC 2.0, a message a line, with the methods that a server of tools needs.

Each call runs in a thread of its own, so that one that waits keeps nobody else waiting.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from stayer.core.errors import StayerError
from stayer.core.version import __version__
from stayer.mcp.tools import Toolbox

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol: what they differ in does not concern a server of tools."""
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _BAD_PARAMS = -32700, -32600, -32601, -32602
_LONGEST_LINE = 4_000_000

INSTRUCTIONS = (
    "Stayer is a job queue for work that takes minutes, hours or days. A task is in a queue and is "
    "waiting, scheduled, pending, reserved, started, complete, failed or cancelled. Submit with an "
    "id of your own if you may have to repeat the call: an id is accepted once. If a task does not "
    "start, explain_task says why. Long tasks: don't wait for them, look again later."
)


class _Refusal(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """Answers the requests of one client, until its input ends."""

    def __init__(self, tools: Toolbox, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._tools = tools
        self._requests = requests
        self._answers = answers
        self._writing = threading.Lock()

    def run(self) -> None:
        """Read requests and answer them; returns when all are answered."""
        calls: list[threading.Thread] = []
        while line := self._requests.readline(_LONGEST_LINE):
            if not line.strip():
                continue
            message = self._read(line)
            if message is None:
                continue
            if message.get("method") == "tools/call":
                call = threading.Thread(target=self._answer, args=(message,), daemon=True)
                call.start()
                calls = [*(each for each in calls if each.is_alive()), call]
            else:
                self._answer(message)
        for call in calls:
            call.join()

    def _read(self, line: bytes) -> dict[str, Any] | None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, _PARSE_ERROR, "this is not JSON: write one message a line")
            return None
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._refuse(None, _INVALID_REQUEST, "this is not a request of JSON-RPC 2.0")
            return None
        return message

    def _answer(self, message: Mapping[str, Any]) -> None:
        if "id" not in message:  # a notification: there is nothing to say
            return
        try:
            parameters = message.get("params") or {}
            if not isinstance(parameters, dict):
                raise _Refusal(_BAD_PARAMS, "params is not an object")
            result = self._result(message["method"], parameters)
        except _Refusal as refusal:
            self._refuse(message["id"], refusal.code, str(refusal))
        else:
            self._write({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _result(self, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                wanted = parameters.get("protocolVersion")
                return {
                    "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {"listChanged": False}},
                    "serverInfo": {"name": "stayer", "version": __version__},
                    "instructions": INSTRUCTIONS,
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": self._tools.descriptions()}
            case "tools/call":
                return self._call(parameters)
            case _:
                raise _Refusal(_NO_METHOD, f"there is no method {method!r} here, only tools")

    def _call(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = parameters.get("name"), parameters.get("arguments") or {}
        if not isinstance(name, str) or name not in self._tools.names:
            known = ", ".join(self._tools.names)
            raise _Refusal(_BAD_PARAMS, f"there is no tool {name!r}: there are {known}")
        try:
            found = self._tools.call(name, arguments)
        except StayerError as error:
            return {"content": [_text(str(error))], "isError": True}
        except Exception as error:
            print(f"stayer mcp: {name}: {error!r}", file=sys.stderr)
            return {"content": [_text(f"{type(error).__name__}: {error}")], "isError": True}
        return {
            "content": [_text(json.dumps(found, ensure_ascii=False))],
            "structuredContent": found,
            "isError": False,
        }

    def _refuse(self, id: object, code: int, message: str) -> None:
        self._write({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        with self._writing:
            self._answers.write(line)
            self._answers.flush()


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
