"""Lists over all queues of a cluster while one can't be reached: what can be is shown, and what
can't is said; never less in silence.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Fail, Start
from stayer.core.insight.queue_stats import Figures, total
from stayer.core.model import Fault, Filter
from stayer.service.degraded.partial import partly, workers_in
from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore
from tests.cli.running import Here
from tests.contract.builders import apply, ids, new, started, submit, take_one
from tests.http.serving import served_here
from tests.redis.test_cluster_away import QUEUES, Away, away, now, store
from tests.servers.cluster import Cluster

__all__ = ["away", "now", "store"]

FAULT = Fault("Error", "it broke")


@pytest.fixture
def url(cluster: Cluster, store: ClusterStore) -> str:
    """Of the same store; each of its queues has a task."""
    submit(store, *(new(f"in-{queue}", queue) for queue in QUEUES))
    return cluster.url(prefix=store._nodes.options.prefix)


@pytest.fixture
def stayer(url: str, tmp_path: Path) -> Here:
    return Here({"STAYER_STORE": url, "HOME": str(tmp_path), "TZ": "UTC"})


def test_who_asks_for_all_is_told_that_all_can_not_be_had(
    store: ClusterStore, url: str, away: Away
) -> None:
    """What acts on all that it finds, such as a cancel of many, must not take a part for it."""
    with away("a"):
        with pytest.raises(StoreUnreachable):
            store.find(Filter(), None, 10)
        with pytest.raises(StoreUnreachable):
            store.queues()


def test_a_store_says_what_can_be_reached(store: ClusterStore, url: str, away: Away) -> None:
    assert store.reach(()).queues == QUEUES
    with away("a"):
        reach = store.reach(())
        assert (reach.queues, list(reach.away)) == (("b", "c"), ["a"])
        assert "moving" in reach.away["a"]
        assert store.reach(["c", "b"]).away == {}
        with pytest.raises(StoreUnreachable):
            store.reach(["a"])
    assert store.reach(()).away == {}


def test_what_is_back_by_now_is_read_whole(store: ClusterStore, url: str) -> None:
    asked: list[list[str]] = []

    def read(queues: object) -> list[str]:
        asked.append(list(queues))  # type: ignore[call-overload]
        if len(asked) == 1:
            raise StoreUnreachable("for a moment")
        return ["all"]

    assert partly(store, (), read) == (["all"], {})
    assert asked == [[], []]


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"], ["--ids"], ["-n", "0"]])
def test_ls_shows_the_others(stayer: Here, away: Away, form: list[str]) -> None:
    with away("a"):
        found = stayer("ls", *form)
    assert "in-b" in found.out
    assert "in-c" in found.out
    assert "in-a" not in found.out
    assert "queue a can't be reached now, and nothing of it is shown" in found.err
    assert found.code == 4, "programs are told too"
    assert "in-a" in stayer("ls", *form).works().out


def test_queues_and_stats_show_the_others(stayer: Here, away: Away) -> None:
    with away("a"):
        listed, counted = stayer("queues", "--json"), stayer("stats", "--json")
    assert [queue["name"] for queue in listed.json] == ["b", "c"]
    assert counted.json == []
    for each in (listed, counted):
        assert "queue a can't be reached now" in each.err
        assert each.code == 4
    assert len(stayer("queues", "--json").works().json) == 3


def test_a_queue_that_is_asked_for_by_name_is_not_passed_over(stayer: Here, away: Away) -> None:
    with away("a"):
        refused = stayer("ls", "-q", "a")
    assert (refused.code, refused.out) == (4, "")


def test_over_http_a_part_is_given_to_who_asks_for_one(
    url: str, store: ClusterStore, away: Away, tmp_path: Path
) -> None:
    with served_here(tmp_path, url) as site, away("a"):
        for path in ("/v1/tasks", "/v1/queues"):
            site("GET", path).is_problem(503, "store-unreachable")
        tasks = site("GET", "/v1/tasks?partial=true").json
        queues = site("GET", "/v1/queues?partial=true").json
        with closing(open_store(site.url, token=site.tokens["read"])) as remote:
            page, missing = partly(
                remote, (), lambda names: remote.find(Filter(queues=tuple(names)), None, 10)
            )
    assert sorted(task["id"] for task in tasks["tasks"]) == ["in-b", "in-c"]
    assert [queue["name"] for queue in queues["queues"]] == ["b", "c"]
    assert list(tasks["away"]) == list(queues["away"]) == list(missing) == ["a"]
    assert store.url not in tasks["away"]["a"]
    assert sorted(ids(page.tasks)) == ["in-b", "in-c"]


def test_over_http_sums_workers_and_failures_are_those_of_the_others(
    store: ClusterStore, url: str, away: Away, tmp_path: Path
) -> None:
    for queue in QUEUES:
        apply(store, apply(store, take_one(store, queue=queue), Start(pid=1)), Fail(FAULT))
        started(store, queue=queue, id=f"runs-{queue}")
    with served_here(tmp_path, url) as site, away("a"):
        for path in ("stats", "workers", "failures"):
            site("GET", f"/v1/{path}").is_problem(503, "store-unreachable")
        stats, workers, failures = (
            site("GET", f"/v1/{path}partial=true").json
            for path in ("stats?since=1h&", "workers?", "failures?")
        )
        with closing(open_store(site.url, token=site.tokens["read"])) as remote:
            known, missing = partly(remote, (), partial(workers_in, remote))
    assert (stats["tasks"]["started"], stats["tasks"]["failed"], stats["queues"]) == (2, 2, 2)
    assert stats["history"]["points"] == []
    assert [worker["running"] for worker in workers["workers"]] == [2]
    assert (failures["tasks"], failures["faults"]) == (2, 1)
    assert list(stats["away"]) == list(workers["away"]) == list(failures["away"]) == ["a"]
    assert ([worker.running for worker in known], list(missing)) == ([2], ["a"])


def test_sums_are_told_though_the_events_are_away(
    store: ClusterStore, url: str, away: Away, tmp_path: Path
) -> None:
    # Before the server begins: it counts events, and keys that are there are answered for.
    with away("news"), served_here(tmp_path, url) as site:
        site("GET", "/v1/stats").is_problem(503, "store-unreachable")
        stats = site("GET", "/v1/stats?partial=true").json
    assert (stats["last_event"], stats["rates"], stats["away"]) == (None, None, {})
    assert stats["tasks"]["pending"] == len(QUEUES)


def test_figures_of_some_queues_are_added() -> None:
    one = Figures(at=60.0, queue="b", depth=2, age=5.0, submitted=1)
    other = Figures(at=60.0, queue="c", depth=3, age=9.0, running=1, submitted=2)
    later = Figures(at=120.0, queue="c", depth=1)
    assert total([later, one, other]) == [
        Figures(at=60.0, depth=5, age=9.0, running=1, submitted=3),
        Figures(at=120.0, depth=1),
    ]
