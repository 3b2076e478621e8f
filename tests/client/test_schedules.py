"""Schedules, expiry and retention in Python."""

from __future__ import annotations

import asyncio

import pytest

import stayer
from stayer import aio
from stayer.client import Client
from stayer.core.errors import BadInput, Refused, UnknownSchedule


def test_a_schedule_is_added_paused_run_and_dropped(client: Client) -> None:
    made = client.add_schedule(
        "nightly", "30 2 * * *", {"n": 1}, queue="q", zone="Europe/Berlin", task="jobs.f",
        jitter="5m", retries=2,
    )  # fmt: skip
    assert client.schedules() == [made]
    assert (made.task.name, made.task.parameters, made.jitter) == ("jobs.f", {"n": 1}, 300.0)
    assert (made.task.owner, made.task.policy.retries) == ("ada", 2)
    client.pause_schedule("nightly")
    assert client.schedules()[0].paused
    client.resume_schedule("nightly")
    ran = client.run_schedule("nightly")
    assert (ran.queue, ran.parameters) == ("q", {"n": 1})
    with pytest.raises(Refused, match="another schedule"):
        client.add_schedule("nightly", "@daily", queue="q")
    client.add_schedule("nightly", "@daily", queue="q", replace=True)
    client.drop_schedule("nightly")
    with pytest.raises(UnknownSchedule):
        client.drop_schedule("nightly")


def test_the_same_awaited(url: str) -> None:
    async def act() -> str:
        async with aio.Client(url) as client:
            await client.add_schedule("s", "@daily", queue="q", command=["true"])
            ran = await client.run_schedule("s")
            await client.get_queue("q").set_retention(complete="7d")
            assert [each.name for each in await client.schedules()] == ["s"]
            return ran.id

    assert asyncio.run(act()).startswith("s@run-")


def test_a_queue_is_told_how_long_to_keep(client: Client) -> None:
    queue = client.get_queue("q")
    queue.set_retention(complete="7d", log=60)
    assert queue.info().retention == {"complete": 7 * 86400.0, "log": 60.0}
    queue.set_retention(complete=None)
    assert queue.info().retention == {"log": 60.0}
    with pytest.raises(BadInput, match="complete, failed"):
        queue.set_retention(compleet="7d")


def test_a_task_may_expire(client: Client) -> None:
    queue = client.get_queue("q")
    by_age = client.get_task(queue.enqueue(expire="10m")).record
    assert by_age.start_before == pytest.approx(by_age.created + 600)
    by_moment = client.get_task(queue.enqueue(start_before=4e9)).record
    assert by_moment.start_before == 4e9
    with pytest.raises(BadInput, match="either a start_before or an expire"):
        queue.enqueue(expire=1, start_before=4e9)
    with pytest.raises(BadInput, match="not a duration"):
        queue.enqueue(expire=-1)


def test_an_app_says_what_the_clock_is_to_submit(url: str) -> None:
    app = stayer.App(url)

    @app.cron("30 2 * * *", zone="Asia/Tokyo", parameters={"n": 3})
    @app.cron("@hourly", name="often", parameters={"n": 1}, overlap="queue")
    @app.task(name="f", queue="q", expire="1h")
    def f(n: int) -> int:
        return n

    assert f(1) == 1
    often, nightly = app.schedules
    assert (often["name"], nightly["name"], nightly["zone"]) == ("often", "f", "Asia/Tokyo")
    assert nightly["task"] == {
        "queue": "q", "name": "f", "parameters": {"n": 3}, "priority": 0, "tags": [],
        "held": False, "notify": [], "expire": 3600.0,
    }  # fmt: skip


def test_what_an_app_can_not_mean_shows_at_once(url: str) -> None:
    app = stayer.App(url)

    @app.task(name="f")
    def f(n: int) -> int:
        return n

    with pytest.raises(BadInput, match="five fields"):
        app.cron("at night", parameters={"n": 1})(f)
    with pytest.raises(TypeError, match="n"):
        app.cron("@daily")(f)
    app.cron("@daily", parameters={"n": 1})(f)
    with pytest.raises(BadInput, match="already"):
        app.cron("@daily", parameters={"n": 1})(f)
