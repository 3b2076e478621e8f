"""The session of a real browser: whom its cookie helps, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.ui.browsing import Tabs, picture
from tests.ui.system import System

PAGE = b"<!doctype html><title>other</title><script>fetch('/steal')</script>"


class Neighbour(BaseHTTPRequestHandler):
    """A server of somebody else, on another port of the same host."""

    cookies: list[str]

    def do_GET(self) -> None:
        if self.path == "/steal":
            self.cookies.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def neighbour() -> Iterator[tuple[str, list[str]]]:
    cookies: list[str] = []
    handler = type("Handler", (Neighbour,), {"cookies": cookies})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", cookies
    server.shutdown()
    server.server_close()


def test_a_cookie_that_another_port_gets_opens_nothing(
    tabs: Tabs, system: System, neighbour: tuple[str, list[str]]
) -> None:
    url, cookies = neighbour
    tabs.open("now")
    other = tabs.context.new_page()
    with other.expect_response("**/steal"):
        other.goto(url)
    [cookie] = cookies
    assert cookie.startswith("stayer-")  # browsers do that
    assert other.evaluate("Object.keys(localStorage)") == []
    for word in (None, "1"):
        headers = {"Cookie": cookie} | ({} if word is None else {"X-Stayer-Request": word})
        for path in ("/v1/session", "/v1/tasks", "/v1/events"):
            assert system.site("GET", path, role=None, **headers).status == 401
        submitted = system.site("POST", "/v1/tasks", {}, role=None, **headers)
        submitted.is_problem(401, "unauthorized")


def test_a_session_that_is_ended_leads_to_the_login_page(tabs: Tabs, system: System) -> None:
    page = tabs.open("now")
    tabs.watch.forgive(401)
    system.site.access.end_sessions()
    system.submit(id="news", queue="default", held=True)
    expect(page.get_by_label("A token")).to_be_visible()
    tabs.watch.forgive(401)
    picture(page, "login")


def test_without_the_secret_of_the_page_one_logs_in_again(tabs: Tabs) -> None:
    page = tabs.open("now")
    tabs.watch.forgive(401)
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(page.get_by_label("A token")).to_be_visible()
    tabs.watch.forgive(401)


def test_words_that_every_object_knows_are_no_pages(tabs: Tabs) -> None:
    page = tabs.open("now")
    picture(page, "now-empty")
    for word in ("constructor", "toString", "__proto__", "hasOwnProperty"):
        page.goto(f"{tabs.url}/#/{word}")
        expect(page.get_by_text("There is no such page")).to_be_visible()
        page.reload()
        expect(page.get_by_text("There is no such page")).to_be_visible()


def test_a_log_is_shown_as_plain_text(tabs: Tabs, system: System) -> None:
    id = system.submit(queue="default", command=["echo", "<b>printed</b> ü"])
    system.until(id, "complete")
    page = tabs.open(f"task/{id}")
    with tabs.context.expect_page() as opened:
        page.get_by_role("button", name="Plain text").click()
    expect(opened.value.locator("body")).to_have_text("<b>printed</b> ü\n")
