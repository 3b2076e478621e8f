"""The table of fields, and what has to be written out beside it, agree."""

from __future__ import annotations

import pytest

from stayer.client.submit import OPTIONS, Options
from stayer.core import fields
from stayer.core.fields import FIELDS, STORED, SUBMISSION, Row
from stayer.core.model import Policy, Task
from stayer.stores.redis import record

NUMBERS = (
    "updated created seq id parameters result queue state attempt owner name worker node ending "
    "finished_at started_at pid priority held eta tags command cwd env policy failures "
    "interruptions losses last_order error progress orders returned_from paused usage start_before "
    "flow flow_part upstreams dependents key unique unique_while unique_for notify checkpoint_at "
    "near_node near_until fingerprint cloned_from code pinned lock meta submitted_by source_commit "
    "metrics finish_before"
)
FREE = 1 + len(NUMBERS.split())


def test_the_numbers_in_records_of_redis_stay_what_they_were() -> None:
    """Records of older versions are there: a new field goes to the end of this list."""
    assert {name: n for n, name in enumerate(NUMBERS.split(), start=1)} == record.NUMBER_OF


def test_the_keyword_options_of_python_are_those_of_the_table() -> None:
    """They are written out for editors and for mypy."""
    assert set(Options.__optional_keys__) == OPTIONS


def test_all_fields_of_a_task_are_stored_in_its_order() -> None:
    assert tuple(field.name for field in STORED) == Task.__struct_fields__


def test_what_is_shown_can_be_told_apart() -> None:
    """A record has the fields of the task and of its policy side by side."""
    shown = [field.name for field in FIELDS if field.row.shown and field.set_by != "flow"]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("name", SUBMISSION)
def test_a_field_says_what_it_is(name: str) -> None:
    row = SUBMISSION[name].row
    assert row.about
    assert not row.about.endswith(".")
    assert row.help is None or row.help.endswith((".", "…"))


def test_a_field_without_a_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {setter: dict(known) for setter, known in fields._ROWS.items()}
    del rows["submitter"]["priority"]
    monkeypatch.setattr(fields, "_ROWS", rows)
    with pytest.raises(LookupError, match="no row for priority"):
        list(fields._fields())


@pytest.mark.parametrize(
    ("name", "row", "said"),
    [
        ("nothing", Row("a field that no class has"), "no class .* has a field nothing"),
        ("retries", Row("a field of the policy", 99), "retries is stored by number"),
        (
            "priority",
            Row("a field that is stored"),
            f"priority is stored by number .* free is {FREE}",
        ),
        (
            "owner",
            Row("a field that is stored", 9),
            f"owner and attempt both have .* free is {FREE}",
        ),
        ("tags", Row("never None", 21, of_queue=True), "tags may have a default of its queue if"),
        ("pid", Row("a field of the worker", 17), "pid may be submitted: NewTask has to have it"),
    ],
)
def test_a_row_that_no_class_agrees_with_is_refused(
    name: str, row: Row, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {setter: dict(known) for setter, known in fields._ROWS.items()}
    rows["submitter"][name] = row
    monkeypatch.setattr(fields, "_ROWS", rows)
    with pytest.raises(LookupError, match=said):
        list(fields._fields())


def test_a_policy_has_nothing_that_is_stored_by_number() -> None:
    assert all(field.row.number is None for field in FIELDS if field.home is Policy)
