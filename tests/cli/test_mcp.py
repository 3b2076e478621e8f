"""`stayer mcp`: a session over its standard input and output, as an assistant has one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stayer import Client


class Session:
    """A client of the protocol, written by hand."""

    def __init__(self, url: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stayer", "--store", url, "mcp", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.number = 0

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, method: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        answer = self.receive()
        assert answer["id"] == self.number
        return answer

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", {"name": name, "arguments": arguments})[
            "result"
        ]
        assert not result["isError"], result
        found: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == found
        return found

    def refusal(self, name: str, /, **arguments: Any) -> str:
        result = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        assert result["isError"], result
        text: str = result["content"][0]["text"]
        return text

    def close(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        return code


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stayer.db"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


def test_an_assistant_submits_watches_explains_and_cancels(url: str, client: Client) -> None:
    session = Session(url)
    hello = session.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    assert hello["result"]["serverInfo"]["name"] == "stayer"
    session.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools = {each["name"]: each for each in session.ask("tools/list")["result"]["tools"]}
    assert tools["show_task"]["inputSchema"]["required"] == ["id"]
    assert tools["cancel_task"]["annotations"]["destructiveHint"]
    assert tools["list_tasks"]["annotations"]["readOnlyHint"]

    made = session.call("submit_task", name="jobs.encode", parameters={"file": "a"}, id="film-1")
    assert (made["state"], made["fresh"]) == ("pending", True)
    assert not session.call(
        "submit_task", name="jobs.encode", parameters={"file": "a"}, id="film-1"
    )["fresh"]
    assert client.get_task("film-1").parameters == {"file": "a"}
    assert [each["id"] for each in session.call("list_tasks", state="pending")["tasks"]] == [
        "film-1"
    ]
    assert "worker" in json.dumps(session.call("explain_task", id="film-1")["reasons"])
    assert session.call("wait_for_task", id="film-1", seconds=0)["state"] == "pending"
    assert session.call("read_log", id="film-1")["log"] == ""
    assert session.call("list_queues")["queues"][0]["counts"]["pending"] == 1
    assert session.call("list_workers") == {"workers": []}
    assert session.call("cancel_task", id="film-1")["state"] == "cancelled"
    assert session.call("retry_task", id="film-1")["state"] == "pending"

    with client.get_listener("default") as listener:
        task = listener.listen(timeout="1m")
        assert task is not None
        client.get_processor(task).fail("no disk")
    assert session.call("show_task", id="film-1")["error"]["message"] == "no disk"
    assert "no disk" in json.dumps(session.call("list_failures"))
    assert session.close() == 0


def test_what_is_wrong_is_said_and_the_session_goes_on(url: str, client: Client) -> None:
    session = Session(url)
    assert "no task 'x'" in session.refusal("show_task", id="x")
    assert "missing required field `id`" in session.refusal("show_task")
    assert "unknown field `idd`" in session.refusal("list_tasks", idd="x")
    assert "either the name" in session.refusal("submit_task", queue="q")
    assert "--allow-commands" in session.refusal("submit_task", command=["rm", "x"])
    assert session.ask("tools/call", {"name": "rm"})["error"]["code"] == -32602
    assert session.ask("resources/list")["error"]["code"] == -32601
    for odd in (b"{no json", b"[" * 100_000):
        session.send(odd)
        assert session.receive()["error"]["code"] == -32700
    session.send([1])
    assert session.receive()["error"]["code"] == -32600
    assert session.ask("initialize", {"protocolVersion": "1999-01-01"})["result"]["protocolVersion"]
    assert session.ask("ping")["result"] == {}
    assert session.close() == 0


def test_it_may_only_look_or_also_submit_commands(url: str, client: Client) -> None:
    client.get_queue("q").submit({}, id="there")
    session = Session(url, "--read-only")
    names = {each["name"] for each in session.ask("tools/list")["result"]["tools"]}
    assert "show_task" in names
    assert not names & {"submit_task", "cancel_task", "retry_task"}
    assert session.ask("tools/call", {"name": "cancel_task", "arguments": {"id": "there"}})["error"]
    session.close()
    session = Session(url, "--allow-commands")
    assert session.call("submit_task", command=["echo", "hi"])["command"] == ["echo", "hi"]
    session.close()


def test_one_that_waits_keeps_nobody_waiting(url: str, client: Client) -> None:
    client.get_queue("q").submit({}, id="slow")
    session = Session(url)
    wait = {"name": "wait_for_task", "arguments": {"id": "slow", "seconds": 60}}
    session.send({"jsonrpc": "2.0", "id": "waits", "method": "tools/call", "params": wait})
    assert session.ask("ping")["result"] == {}
    client.get_task("slow").cancel()
    answer = session.receive()
    assert answer["id"] == "waits"
    assert answer["result"]["structuredContent"]["state"] == "cancelled"
    session.close()


def test_the_official_client_understands_it(url: str, client: Client) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "stayer", "--store", url, "mcp"]
    )

    async def main() -> None:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            assert "submit_task" in [tool.name for tool in (await session.list_tools()).tools]
            arguments = {"name": "jobs.f", "id": "one"}
            made = await session.call_tool("submit_task", arguments)
            assert json.loads(made.content[0].text)["state"] == "pending"

    asyncio.run(main())
