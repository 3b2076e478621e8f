"""What a copy of Stayer with more fields shows to those who are outside of it: the command line, a
server and its description.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from stayer.core.model import NewTask
from stayer.stores import open_store
from tests.contract.made_up import SAID, SHOWN
from tests.contract.test_made_up_fields import Run, copy, run

__all__ = ["copy", "run"]

SERVED = """
import os, sys
from pathlib import Path
from tests.contract import made_up
from tests.http.serving import served_here

with served_here(Path(sys.argv[1]), sys.argv[2]) as site:
    os.environ["STAYER_TOKEN"] = site.tokens["operate"]
    made_up.main(site.url, works=False)
"""


def test_a_server_passes_it_on(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:///{tmp_path}/stayer.db"
    store = open_store(url)
    store.setup()
    store.submit([NewTask(id="old", queue="attic")])
    store.close()
    run("-c", SERVED, str(tmp_path), url)


def test_the_description_of_the_api_has_it(run: Run) -> None:
    made = "import json; from stayer.http.openapi import describe; print(json.dumps(describe()))"
    schemas = json.loads(run("-c", made))["components"]["schemas"]
    for name in SAID:
        assert name in schemas["Submission"]["properties"]
        assert name in schemas["Task"]["properties"]
        assert name in schemas["Task"]["required"]
    assert schemas["Task"]["properties"]["harvest"]["anyOf"][0]["format"] == "date-time"
    assert {"type": "string", "maxLength": 64} in schemas["Submission"]["properties"]["colour"][
        "anyOf"
    ]


def test_the_command_line_has_it(tmp_path: Path, run: Run) -> None:
    said = run("-m", "stayer", "add", "--help")
    assert "Its colour." in said
    stayer = ("-m", "stayer", "--store", f"sqlite:///{tmp_path}/stayer.db")
    options = [
        "--colour", "red", "--season", "autumn", "--petals", "5", "--height", "2.5", "--wild",
        "--harvest", "2027-01-01T00:00:00Z", "--lasts", "10m", "--weight", "1G", "--shade", "dark",
        "--shade", "pale", "--patience", "1h",
    ]  # fmt: skip
    run(*stayer, "add", "--id", "rose", *options)
    [shown] = json.loads(run(*stayer, "ls", "--json"))
    assert {**{name: shown[name] for name in SAID}, "labels": SAID["labels"]} == SHOWN
    page = run(*stayer, "show", "rose")
    assert re.search(r"^colour +red$", page, re.MULTILINE)
    assert re.search(r"^shades +dark pale$", page, re.MULTILINE)
    assert "labels" not in page
