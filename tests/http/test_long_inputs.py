"""Texts that are far too long are refused one by one, and the server serves on."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.schedules.parse import WrittenSchedule
from stayer.core.submit.json import WrittenSubmission
from stayer.http.openapi import describe
from stayer.http.queues import QueueBody
from stayer.store import Store
from tests.contract.long_inputs import long_values
from tests.http.serving import Site


def bodies(kind: type, **common: Any) -> dict[str, list[Any]]:
    """By field, requests of which it is too long."""
    found: dict[str, list[Any]] = {}
    for name, value in long_values(kind, ("parameters",)):
        found.setdefault(name, []).append({**common, name: value})
    return found


TASKS = bodies(WrittenSubmission)
SCHEDULES = bodies(WrittenSchedule, name="s", cron="@daily", task={"command": ["true"]})
QUEUES = bodies(QueueBody)


def refused(site: Site, method: str, path: str, bodies: list[Any], role: Any) -> None:
    for body in bodies:
        answer = site(method, path, body, role=role)
        assert answer.status in (400, 413, 422), answer
        assert len(answer.body) < 5000
    assert site("GET", "/healthz", role=None).status == 200


@pytest.mark.parametrize("name", TASKS)
def test_a_field_of_a_task_is_refused_by_its_length(site: Site, store: Store, name: str) -> None:
    more = {"command": ["true"]} if name == "cwd" else {}
    refused(site, "POST", "/v1/tasks", [{**more, **body} for body in TASKS[name]], "submit")
    assert store.queues() == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_field_of_a_schedule_is_refused_by_its_length(
    site: Site, store: Store, name: str
) -> None:
    refused(site, "POST", "/v1/schedules", SCHEDULES[name], "operate")
    assert store.schedules() == []


@pytest.mark.parametrize("name", QUEUES)
def test_a_setting_of_a_queue_is_refused_by_its_length(site: Site, store: Store, name: str) -> None:
    refused(site, "PATCH", "/v1/queues/mine", QUEUES[name], "operate")


def test_the_description_says_how_much_fits() -> None:
    schemas = describe()["components"]["schemas"]
    fields = schemas["Submission"]["properties"]
    assert "64,000 bytes" in schemas["Submission"]["description"]
    for name in TASKS:
        shapes = fields[name]["anyOf"]
        for shape in shapes:
            if shape.get("type") == "string":
                assert shape["maxLength"] <= 64_000
            if shape.get("type") == "array":
                assert shape["maxItems"] <= 100_000
                assert shape["items"]["maxLength"] <= 64_000
