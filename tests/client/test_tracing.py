"""Traces: nothing without OpenTelemetry, spans for submits and attempts with it.

Each program runs in a process of its own, because a process has one tracer provider for all its
life.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stayer import Client
from stayer.service import tracing
from tests.contract.builders import PATIENCE
from tests.http.serving import Site, served_here

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TRACED = """
import json, os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

found = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(found))
trace.set_tracer_provider(provider)

import stayer

client = stayer.Client(sys.argv[1])

def show(**more):
    spans = [
        {
            "name": span.name, "kind": span.kind.name, "status": span.status.status_code.name,
            "trace": f"{span.context.trace_id:032x}", "id": f"{span.context.span_id:016x}",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
            "links": [f"{link.context.span_id:016x}" for link in span.links],
            "attributes": dict(span.attributes),
        }
        for span in found.get_finished_spans()
    ]
    print(json.dumps({"spans": spans, **more}))
"""


def run(folder: Path, url: str, code: str, **environment: str) -> Any:
    program = folder / "program.py"
    program.write_text(code)
    done = subprocess.run(
        [sys.executable, str(program), url],
        env={**os.environ, **environment}, cwd=folder, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _no_trace_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACEPARENT", "TRACESTATE"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_imported_unless_the_program_does(tmp_path: Path, url: str) -> None:
    code = (
        "import json, sys, stayer, stayer.service.tracing\n"
        "client = stayer.Client(sys.argv[1])\n"
        "task = client.get_queue('q').enqueue({'n': 1})\n"
        "with client.get_listener('q') as listener:\n"
        "    client.get_processor(listener.listen(5)).complete()\n"
        "print(json.dumps([name for name in sys.modules if 'opentelemetry' in name]))\n"
    )
    assert run(tmp_path, url, code) == []


def test_the_environment_carries_a_trace_without_any_library(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = client.get_queue("q")

    def env(**options: Any) -> Any:
        return client.get_task(queue.enqueue({}, **options)).env

    assert env() is None
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("TRACESTATE", "vendor=1")
    assert env() == {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}
    own = {"TRACEPARENT": "mine", "A": "b"}
    assert env(env=own) == own
    [id] = queue.enqueue_many([{}])
    assert client.get_task(id).env == {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}


@pytest.mark.parametrize(
    "broken",
    ["", "x", PARENT[:-1], PARENT.upper(), f"00-{'0' * 32}{PARENT[35:]}", "ff" + PARENT[2:],
     PARENT + "\n", PARENT + "-more"],
)  # fmt: skip
def test_what_is_no_context_is_left_out(broken: str) -> None:
    assert tracing.read_context(broken) == {}
    assert tracing.read_context(PARENT, "x" * 513) == {"TRACEPARENT": PARENT}
    assert tracing.read_context(PARENT, "a\nb") == {"TRACEPARENT": PARENT}


def test_a_submit_and_an_attempt_are_spans_of_one_trace(tmp_path: Path, url: str) -> None:
    found = run(
        tmp_path, url, TRACED + """
with trace.get_tracer("mine").start_as_current_span("mine"):
    task = client.get_task(client.get_queue("q").enqueue({"n": 1}))
with client.get_listener("q") as listener:
    client.get_processor(listener.listen(5)).complete("done")
show(env=task.env, id=task.id)
""",
    )  # fmt: skip
    submit, mine, attempt = found["spans"]
    assert (submit["name"], submit["kind"], submit["parent"]) == (
        "submit q", "PRODUCER", mine["id"],
    )  # fmt: skip
    assert found["env"]["TRACEPARENT"].startswith(f"00-{mine['trace']}-{submit['id']}-")
    assert (attempt["name"], attempt["kind"], attempt["status"]) == ("run q", "CONSUMER", "UNSET")
    assert attempt["trace"] == mine["trace"]
    assert (attempt["parent"], attempt["links"]) == (submit["id"], [submit["id"]])
    assert attempt["attributes"]["stayer.ending"] == "done"
    assert attempt["attributes"]["messaging.message.id"] == found["id"]


def test_an_attempt_that_fails_says_so_and_the_next_is_another_span(
    tmp_path: Path, url: str
) -> None:
    found = run(
        tmp_path, url, TRACED + """
client.get_queue("q").enqueue({}, id="t", retries=1, retry_wait=0)
with client.get_listener("q") as listener:
    client.get_processor(listener.listen(5)).fail(ValueError("no"))
    client.get_processor(listener.listen(60)).complete()
show()
""",
        TRACEPARENT=PARENT,
    )  # fmt: skip
    submit, first, second = found["spans"]
    assert submit["trace"] == first["trace"] == second["trace"] == PARENT.split("-")[1]
    assert submit["parent"] == PARENT.split("-")[2]
    assert [each["attributes"]["stayer.attempt"] for each in (first, second)] == [1, 2]
    assert [each["status"] for each in (first, second)] == ["ERROR", "UNSET"]
    assert first["attributes"]["error.type"] == "ValueError"


def test_a_header_of_http_is_the_context(tmp_path: Path, url: str) -> None:
    with served_here(tmp_path, url) as site, Client(url) as client:
        check_header(site, client)


def check_header(site: Site, client: Client) -> None:
    site("POST", "/v1/tasks", {"id": "a"}, traceparent=PARENT, tracestate="vendor=1")
    assert client.get_task("a").env == {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}
    site("POST", "/v1/tasks", [{"id": "b"}, {"id": "c", "env": {"X": "y"}}], traceparent=PARENT)
    assert client.get_task("c").env == {"TRACEPARENT": PARENT, "X": "y"}
    site("POST", "/v1/tasks", {"id": "d"}, traceparent="nonsense")
    assert client.get_task("d").env is None
