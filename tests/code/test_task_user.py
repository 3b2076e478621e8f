"""Code of tasks that run as another user: built by that user, and with nothing of the worker's."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.model import Code, SentFile
from tests.code.conftest import CodeFleet
from tests.faults.fleet import folder_for_all

USER = "nobody"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others")


@pytest.fixture
def fleet() -> Iterator[CodeFleet]:
    with folder_for_all() as folder:
        fleet = CodeFleet(folder, task_user=USER)
        fleet.index.add("greet", "1.0")
        # The one of this environment may be in somebody's home.
        fleet.uv = str(shutil.copy(Path(sys.executable).with_name("uv"), folder / "uv"))
        for path in (folder / "index", *(folder / "index").rglob("*"), folder / "uv"):
            path.chmod(0o755)
        yield fleet
        fleet.close()


def test_the_user_of_the_task_builds_what_it_needs_and_the_worker_pins_it(fleet: CodeFleet) -> None:
    fleet.starts()
    show = "import greet, os, sys; print(greet.VERSION, os.getuid(), sys.prefix)"
    fleet.add("a", "python", "-c", show, code=Code("greet"))

    task = fleet.completed("a")

    uid = pwd.getpwnam(USER).pw_uid
    [version, user, prefix] = fleet.log("a").splitlines()[-1].split()
    assert (version, user) == ("1.0", str(uid))
    assert task.pinned is not None
    assert Path(prefix).stat().st_uid == uid
    assert Path(prefix).is_relative_to(fleet.cache / USER)


def test_files_that_were_sent_belong_to_the_user_of_the_task(fleet: CodeFleet) -> None:
    sha256 = hashlib.sha256(b"abc").hexdigest()
    fleet.store.put_file(sha256, b"abc")
    fleet.starts()
    fleet.add(
        "t",
        "sh",
        "-c",
        "echo d >> sub/a; cat sub/a; rm sub/a",
        code=Code(files=(SentFile("sub/a", sha256, 3),)),
    )
    fleet.completed("t")
    assert fleet.log("t") == "abcd\n"
