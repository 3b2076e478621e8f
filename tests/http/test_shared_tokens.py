"""Tokens and sessions in the store: all servers of it know them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.http import service
from stayer.http.token_places import TokensInStore
from stayer.http.token_records import Kept
from stayer.http.tokens import Access
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import new, submit
from tests.faults.fleet import until
from tests.http.serving import Process, Site, Visitor, log_in, served_with
from tests.servers.finding import redis_binary
from tests.servers.redis import serving


def opened(url: str) -> Access:
    """Open the tokens as another process does."""
    store = open_store(url)
    store.setup()
    return Access(TokensInStore(store))


@pytest.fixture
def access(url: str, store: Store) -> Access:
    """What `stayer token` changes."""
    return opened(url)


@pytest.fixture
def sites(url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Site]]:
    """Two servers that share nothing but the store."""
    monkeypatch.setattr(service, "WRITE_LAST_USES_S", 1e6)  # which would be a look at the tokens
    with ExitStack() as stack:
        yield [stack.enter_context(served_with(opened(url), url)) for _ in range(2)]


def knock(site: Site, secret: str) -> int:
    return site("GET", "/v1/clock", role=None, Authorization=f"Bearer {secret}").status


def who(site: Site, visitor: Visitor) -> int:
    return site("GET", "/v1/session", role=None, **visitor.headers).status


def test_a_token_opens_at_once_at_every_server_and_ends_at_each(
    sites: list[Site], access: Access
) -> None:
    for name in ("ann", "bob"):
        secret = access.add(name, "read")
        assert [knock(site, secret) for site in sites] == [200, 200]
        access.remove(name)
        for site in sites:
            until(lambda site=site, secret=secret: knock(site, secret) == 401)  # type: ignore[misc]


def test_an_open_stream_ends_with_its_token_also_at_another_server(
    sites: list[Site], access: Access, store: Store
) -> None:
    secret = access.add("ann", "read")
    with sites[1].stream("/v1/events", Authorization=f"Bearer {secret}") as stream:
        stream.until_id()
        access.remove("ann")
        until(lambda: knock(sites[1], secret) == 401)
        submit(store, new("secret"))
        assert stream.message() is None


def test_a_session_is_one_at_every_server(sites: list[Site], access: Access) -> None:
    one, other = sites
    visitor = log_in(one)
    assert (who(one, visitor), who(other, visitor)) == (200, 200)
    [session] = opened(access.where).sessions()
    assert session.role == "operate"

    reply = other("DELETE", "/v1/session", role=None, **visitor.headers)
    assert reply.status == 204
    assert who(other, visitor) == 401
    until(lambda: who(one, visitor) == 401)


def test_a_login_link_opens_once_at_whichever_server(sites: list[Site], access: Access) -> None:
    for _ in range(5):
        body = {"code": access.make_code()}
        with ThreadPoolExecutor(4) as pool:
            asked = [
                pool.submit(site, "POST", "/v1/session", body, role=None)
                for site in (*sites, *sites)
            ]
        assert sorted(each.result().status for each in asked) == [200, 401, 401, 401]


def test_last_uses_of_all_servers_are_put_together(sites: list[Site], access: Access) -> None:
    secrets = [access.add(name, "read") for name in ("ann", "bob", "cid")]
    for site, secret in zip(sites, secrets, strict=False):
        assert knock(site, secret) == 200
    for site in sites:
        site.access.write_uses()
    found = opened(access.where)
    used = {token.name: found.last_used_at(token) is not None for token in found.tokens()}
    assert used == {"ann": True, "bob": True, "cid": False}


def test_a_change_is_made_again_if_somebody_was_quicker(url: str, access: Access) -> None:
    seen: list[list[str]] = []

    def change(kept: Kept) -> tuple[Kept, None]:
        seen.append([token.name for token in kept.tokens])
        if len(seen) == 1:
            access.add("quicker", "read")
        return replace(kept, codes=()), None

    TokensInStore(open_store(url)).change(change)
    assert seen == [[], ["quicker"]]
    assert [token.name for token in opened(url).tokens()] == ["quicker"]


def test_serve_and_token_use_the_store(tmp_path: Path, url: str, access: Access) -> None:
    """And nothing is written beside it."""
    server = Process(tmp_path, url, access_file=None)
    try:
        site = Site(server.url, access)
        assert who(site, log_in(site)) == 200
        assert knock(site, access.add("ann", "read")) == 200
    finally:
        server.stop()
    assert not list(tmp_path.glob("*access*"))


def test_while_the_store_is_away_nobody_is_turned_away_for_good(tmp_path: Path) -> None:
    """401 would tell a worker that its token is gone."""
    with serving(redis_binary()) as redis, served_with(opened(redis.url()), redis.url()) as site:
        known, unknown = site.access.add("ann", "read"), opened(redis.url()).add("bob", "read")
        assert knock(site, known) == 200
        redis.stop(signal.SIGKILL)
        for secret in (known, unknown):
            shown = f"Bearer {secret}"
            reply = site("GET", "/v1/clock", role=None, Authorization=shown)
            reply.is_problem(503, "store-unreachable")
