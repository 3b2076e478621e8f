"""What the page about flows says."""

from __future__ import annotations

import json

from stayer.core.flows.json import parse_flow
from tests.docs.pages import blocks
from tests.docs.reader import Reader


def test_a_reader_gets_what_the_page_promises(reader: Reader) -> None:
    for block in blocks("how-to/flows.md"):
        if block.language == "json":
            (reader.folder / block.title).write_text(block.code)
        else:
            reader.follow(block)


def test_the_flow_of_the_page_is_one(reader: Reader) -> None:
    [block] = [found for found in blocks("how-to/flows.md") if found.language == "json"]
    flow, tasks = parse_flow(block.code, block.title, queue="default")
    assert [part.name for part in flow.parts] == list(json.loads(block.code)["tasks"])
    assert len(tasks) == 6
