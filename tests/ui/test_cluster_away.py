"""The page while a node of a cluster is away: the rest is shown, and what is missing is said."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from stayer.core.happenings import Fail
from stayer.core.model import Fault
from stayer.stores import open_store
from stayer.stores.redis.keys import key
from stayer.stores.redis_cluster import ClusterStore
from stayer.stores.redis_cluster.router import REGISTRY
from tests.contract.builders import apply, new, register, started, submit
from tests.http.serving import Process, make_access
from tests.servers.cluster import Cluster, clustered
from tests.servers.finding import redis_binary
from tests.servers.sentinel import Node
from tests.ui.browsing import PHONE, logged_in, picture, too_wide

QUEUES = tuple(f"q{number}" for number in range(12))
PARTS = ("now", "tasks", "queues", "nodes", "failures", "timeline")
"""The pages that show what can be reached."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clustered(redis_binary(), replicas=0) as cluster:
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no", password="")
        yield cluster


def spare(cluster: Cluster, store: ClusterStore) -> Node | None:
    """A node that has queues and nothing that concerns all of them."""
    prefix = store._nodes.options.prefix
    needed = {store._nodes.server_of(key(name, prefix)) for name in ("shards", "news", "relayed")}
    needed.add(store._shards.server_of(REGISTRY).node())
    for node in cluster.nodes:
        if store._nodes.at_host(("127.0.0.1", node.port)) not in needed:
            return node
    return None


def on(node: Node, store: ClusterStore) -> list[str]:
    server = store._nodes.at_host(("127.0.0.1", node.port))
    return [name for name in QUEUES if store._shards.server_of(name).node() is server]


def opened(cluster: Cluster) -> tuple[ClusterStore, Node]:
    """A store of which a node could be spared."""
    while True:
        store = open_store(cluster.url())
        assert isinstance(store, ClusterStore)
        if (node := spare(cluster, store)) is not None:
            return store, node
        store.close()


def test_the_rest_is_shown_and_what_is_missing_is_said(
    browser: Browser, cluster: Cluster, tmp_path: Path
) -> None:
    store, node = opened(cluster)
    register(store, queues=QUEUES)
    gone = on(node, store)
    [there, *_] = (name for name in QUEUES if name not in gone)
    apply(store, started(store, queue=there, id="broken"), Fail(Fault("Error", "it broke")))
    submit(store, *(new(f"of {name}", name) for name in QUEUES))
    _, tokens = make_access(tmp_path)
    server = Process(tmp_path, store.url)
    try:
        with logged_in(browser, server.url, tokens["operate"]) as tabs:
            page = tabs.open("queues")
            expect(page.locator(".queue")).to_have_count(len(QUEUES))

            node.signal(signal.SIGKILL)
            state, trouble = page.locator("#link-state"), page.locator("#trouble")
            for place in PARTS:
                page.goto(f"{tabs.url}/#/{place}")
                expect(state).to_have_text("live, in part")
                expect(state).to_have_attribute("data-mood", "warn")
                expect(trouble).to_contain_text(sorted(gone)[0])
                expect(trouble).to_contain_text(re.compile("can't be reached, and nothing of"))
                expect(page.locator("main")).to_be_visible()
                expect(page.locator("html")).not_to_have_attribute("data-figures", re.compile(""))
                picture(page, f"part-{place}")
            expect(page.locator(".gantt .piece")).to_have_count(1)
            page.goto(f"{tabs.url}/#/queues")
            expect(page.locator(".queue")).to_have_count(len(QUEUES) - len(gone))
            page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
            assert too_wide(page) == 0
            picture(page, "part-queues-phone")
            page.goto(f"{tabs.url}/#/tasks?queue={gone[0]}")
            expect(trouble).to_contain_text("This can't be read since")
            expect(page.locator("main")).not_to_contain_text("0 tasks")
            page.goto(f"{tabs.url}/#/flows")
            expect(trouble).to_contain_text("This can't be read since")

            submit(store, new("fresh", there))
            page.goto(f"{tabs.url}/#/tasks?queue={there}")
            expect(page.locator(".task-rows .task-row", has_text="fresh")).to_be_visible()
            node.start()
            expect(state).to_have_text("live")
            expect(trouble).to_be_hidden()
            page.goto(f"{tabs.url}/#/queues")
            expect(page.locator(".queue")).to_have_count(len(QUEUES))
            tabs.watch.forgive(503)
    finally:
        server.stop()
        store.close()
