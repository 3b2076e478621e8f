"""What Prometheus reads: right after a restart and at every server, with labels that stay."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.insight.totals import (
    MOST_QUEUES,
    MOST_SERIES,
    Tally,
    Totals,
    decode,
    encode,
)
from stayer.core.model import Event, Fault, Task
from stayer.core.worker_model import Worker
from stayer.http.metrics import METRICS
from stayer.service.late import late_tasks
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    beat,
    fill,
    new,
    register,
    started,
    submit,
    take_one,
)
from tests.docs.pages import ROOT
from tests.http.serving import Site, served_here
from tests.servers.finding import prometheus_binary

ALERTS = ROOT / "contrib" / "prometheus"
DASHBOARD = ROOT / "contrib" / "grafana" / "stayer.json"
COUNTED = re.compile(r"^stayer_(?:tasks_(?:submitted|ended)|attempts|retries|workers_lost)_total.*")


def figures(site: Site) -> dict[str, float]:
    """Each line by its name and labels."""
    lines = site("GET", "/metrics").body.decode().splitlines()
    parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in parts}


def counters(site: Site) -> dict[str, float]:
    return {name: value for name, value in figures(site).items() if COUNTED.match(name)}


def test_counters_go_on_after_a_restart_and_are_the_same_at_two_servers(
    tmp_path: Path, store: Store, url: str, worker: str
) -> None:
    folders = [tmp_path / name for name in ("before", "one", "two")]
    for folder in folders:
        folder.mkdir()
    with served_here(folders[0], url) as site:
        assert counters(site) == {"stayer_workers_lost_total": 0}
        submit(store, new(name="train"))
        before = counters(site)
    assert before['stayer_tasks_submitted_total{queue="q",kind="train"}'] == 1
    task = take_one(store, worker)
    apply(store, task, Fail(Fault("X")))  # while no server runs

    with served_here(folders[1], url) as one, served_here(folders[2], url) as two:
        first, second = counters(one), counters(two)
    assert first == second
    ended = 'stayer_tasks_ended_total{queue="q",kind="train",state="failed",ending="error"}'
    assert first == {**before, ended: 1}


def test_a_purge_takes_nothing_from_counters(site: Site, store: Store, worker: str) -> None:
    site("GET", "/metrics")
    task = started(store)
    apply(store, task, Done())
    before = counters(site)
    store.purge([task.id], ["complete"], store.now() + 1, 10)
    assert counters(site) == before
    assert figures(site)['stayer_tasks{queue="q",state="complete"}'] == 0


def test_a_histogram_is_one_of_prometheus(site: Site, store: Store, worker: str) -> None:
    site("GET", "/metrics")
    apply(store, started(store, name="train"), Done())
    found = figures(site)
    labels = 'queue="q",kind="train"'
    assert found[f'stayer_attempt_run_seconds_bucket{{{labels},le="+Inf"}}'] == 1
    assert found[f"stayer_attempt_run_seconds_count{{{labels}}}"] == 1
    assert 0 <= found[f"stayer_attempt_run_seconds_sum{{{labels}}}"] < PATIENCE
    assert found['stayer_task_wait_seconds_bucket{queue="q",le="604800"}'] == 1


def test_no_label_changes_with_each_start_of_a_worker(site: Site, store: Store) -> None:
    beat(store, Worker(id="box.4711.17949.895", node="box", pid=4711, queues=("q",), slots=3), 1)
    text = site("GET", "/metrics").body.decode()
    assert 'stayer_node_slots{node="box"} 3' in text
    assert "4711" not in text


def test_there_are_only_so_many_labels_whatever_tasks_are_called() -> None:
    tally = Tally(Totals(seen=0, since=0.0))
    for number in range(3000):
        queue = f"queue {number % 150}"
        event = Event(number=number, at=1.0, id="x", queue=queue, event="pending")
        tally.add(event, Task("x", queue, name=f"kind {number}", created=1.0))
    totals = tally.totals
    pairs = {tuple(key.split("\t")[1:3]) for key in totals.counts}
    assert sum(totals.counts.values()) == 3000
    assert len({queue for queue, _ in pairs}) <= MOST_QUEUES + 1
    assert len(pairs) <= MOST_SERIES + MOST_QUEUES + 1
    assert decode(encode(totals)) == totals
    assert len(encode(totals)) < 64_000, "MySQL keeps no longer texts there"


def test_a_task_that_runs_far_longer_than_others_of_its_kind_is_late(url: str) -> None:
    clock = Clock()
    store = open_store(url, clock=clock)
    store.setup()
    register(store)
    for seconds in (10.0, 20.0, 30.0):
        task = started(store, name="train")
        clock.advance(seconds)
        apply(store, task, Done())
    slow, other = started(store, name="train"), started(store, name="other")
    clock.advance(59)
    assert late_tasks(store) == []
    clock.advance(2)
    assert [late.task.id for late in late_tasks(store)] == [slow.id]
    assert other.id != slow.id
    store.close()


def test_every_metric_is_in_the_table_that_the_reference_is_made_from(
    site: Site, store: Store, worker: str
) -> None:
    fill(store, 1)
    text = site("GET", "/metrics").body.decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert types == {metric.name: metric.type for metric in METRICS}


@pytest.mark.parametrize("file", [DASHBOARD, ALERTS / "stayer-alerts.yml"], ids=lambda it: it.name)
def test_rules_and_dashboard_name_only_metrics_that_there_are(file: Path) -> None:
    known = {metric.name for metric in METRICS} | {
        f"{metric.name}_{part}"
        for metric in METRICS
        if metric.type == "histogram"
        for part in ("bucket", "sum", "count")
    }
    named = {*re.findall(r"\bstayer_\w+", file.read_text(encoding="utf-8"))}
    assert named <= known, named - known
    assert len(named) > 5


def test_the_dashboard_is_one() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one in panels:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert all(target["expr"] for target in one["targets"])


def test_each_alert_fires_when_it_should() -> None:
    promtool = str(Path(prometheus_binary()).with_name("promtool"))
    for verb, file in (("check", "stayer-alerts.yml"), ("test", "stayer-alerts.test.yml")):
        done = subprocess.run(
            [promtool, verb, "rules", file], cwd=ALERTS, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    rules = (ALERTS / "stayer-alerts.yml").read_text(encoding="utf-8")
    tested = (ALERTS / "stayer-alerts.test.yml").read_text(encoding="utf-8")
    page = (ROOT / "docs/how-to/watch-with-prometheus.md").read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", rules)
    for alert in alerts:
        assert f"alertname: {alert}" in tested
        assert f"`{alert}`" in page


@pytest.mark.long
def test_prometheus_scrapes_it_and_alerts_fire(tmp_path: Path, site: Site, store: Store) -> None:
    """A real one: it understands the text, and tells of a late task, a queue that grows and a
    worker that was lost. Its rules are those that are shipped, in seconds instead of hours.
    """
    site("GET", "/metrics")
    rules = (ALERTS / "stayer-alerts.yml").read_text(encoding="utf-8")
    for usual, short in ((r"for: \w+", "for: 0s"), (r"\[\w+\]", "[10s]"), ("> 3600", "> 0")):
        rules = re.sub(usual, short, rules)
    (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "token").write_text(site.tokens["read"])
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n"
        "rule_files: [rules.yml]\n"
        "scrape_configs:\n"
        "  - job_name: stayer\n"
        f"    authorization: {{credentials_file: {tmp_path}/token}}\n"
        f"    static_configs: [{{targets: ['{site.host}']}}]\n"
    )
    command = [
        prometheus_binary(), f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path: str) -> dict[str, object]:
        try:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]  # type: ignore[no-any-return]
        except OSError:
            return {}

    def value(query: str) -> object:
        return ask(f"/api/v1/query?query={quote(query)}").get("result")

    def fires(alert: str) -> bool:
        return bool(value(f'ALERTS{{alertname="{alert}", alertstate="firing"}}'))

    try:
        _until(lambda: bool(value("stayer_workers_lost_total == 0")))
        register(store, "judge")
        register(store, "w")
        for _ in range(3):
            apply(store, started(store, name="train"), Done())
        assert not fires("StayerTaskLate")
        started(store, name="train")
        _until(lambda: fires("StayerTaskLate"))

        assert not fires("StayerQueueGrows")
        _until(lambda: (fill(store, 1), fires("StayerQueueGrows"))[1])

        assert not fires("StayerWorkerLost")
        store.declare_lost("judge", {"w": 1})
        _until(lambda: bool(value("stayer_workers_lost_total == 1")))
        _until(lambda: fires("StayerWorkerLost"))
    finally:
        process.terminate()
        process.wait()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
