"""`--image`: what is asked of podman, by a program that stands in for it. What a real one does is
in `test_images_by_podman.py`.
"""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.core.code import check
from stayer.core.errors import BadInput
from stayer.core.images import check_image, full_name, is_allowed, repository_of
from stayer.core.model import Code, Pinned, Task
from stayer.core.submit.checks import new_task
from stayer.store import Store
from stayer.task.prepare.images import _variables
from stayer.worker.task_images import ImageRules
from tests.cli.running import Here
from tests.code.conftest import CodeFleet
from tests.faults.fleet import until
from tests.quick_popen import QuickPopen

DIGEST = "sha256:" + "5" * 64
STAND_IN = """#!/bin/sh
{{ echo "$@" | tr '\\n' ' '; echo; }} >> {calls}
case "$1 $2" in
"image exists") exit 0;;
"image inspect") echo {digest} docker.io/library/tiny@{digest};;
"run "*)
    env > {variables}
    while [ "$1" != docker.io/library/tiny@{digest} ]; do
        [ "$1" != --env-file ] || cp "$2" {given}
        shift
    done
    shift
    exec "$@";;
esac
"""


class StandIn:
    """A program that is called as podman would be, and notes how."""

    def __init__(self, folder: Path) -> None:
        self.program, self._calls = folder / "podman", folder / "calls"
        self.variables, self.given = folder / "variables", folder / "given"
        self.program.write_text(
            STAND_IN.format(
                calls=self._calls, digest=DIGEST, variables=self.variables, given=self.given
            )
        )
        self.program.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        return [line.split() for line in self._calls.read_text().splitlines()]


@pytest.fixture
def podman(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


def start(fleet: CodeFleet, podman: StandIn, *options: str) -> None:
    fleet.worker("one", "--allow-image", "tiny:*", "--code-env", f"PODMAN={podman.program}",
                 "--code-env", "REGISTRY_AUTH_FILE=/secret", *options, lease=20.0)  # fmt: skip


def test_podman_is_asked_for_a_container_like_the_task(fleet: CodeFleet, podman: StandIn) -> None:
    start(fleet, podman, "--env", "CUDA_VISIBLE_DEVICES=0,3")
    fleet.add("a/b", "sh", "-c", "echo 7 > $STAYER_RESULT", code=Code(image="tiny:1"), cwd="/data",
              env={"CONTAINERS_CONF": "/tmp/evil", "NOTE": "two\nlines"})  # fmt: skip

    task = fleet.completed("a/b")

    assert task.result == 7
    assert task.pinned is not None
    assert (task.pinned.image, task.pinned.python) == (DIGEST, "")
    pull, inspect, exists, run = podman.calls[:4]
    assert pull == ["pull", "docker://docker.io/library/tiny:1"]
    assert (inspect[0], exists[1]) == ("image", "exists")
    pairs = list(pairwise(run))
    for pair in (("--workdir", "/data"), ("--cgroups", "disabled"), ("--pull", "never"),
                 ("--device", "nvidia.com/gpu=0"), ("--device", "nvidia.com/gpu=3"),
                 ("--env", "NOTE=two")):  # fmt: skip
        assert pair in pairs
    given = podman.given.read_text()
    assert "CONTAINERS_CONF=/tmp/evil" in given
    assert "CUDA_VISIBLE_DEVICES" not in given
    assert "PATH=" not in given
    outside = podman.variables.read_text()
    assert "/tmp/evil" not in outside
    assert "REGISTRY_AUTH_FILE=/secret" in outside
    [name] = [word for flag, word in pairs if flag == "--name"]
    assert name.startswith("stayer-a-b-1-")
    removal = ["rm", "--force", "--ignore", "--time", "0", name]
    until(lambda: podman.calls[-1] == removal, "for what is left to be removed")


def test_a_worker_for_images_runs_nothing_else(fleet: CodeFleet, podman: StandIn) -> None:
    worker: subprocess.Popen[bytes] = QuickPopen(
        [
            fleet.python, "-m", "stayer", "worker", "--store", fleet.url, "--state-dir",
            str(fleet.folder / "one"), "--allow-image", "tiny:*", "--code-env",
            f"PODMAN={podman.program}",
        ]
    )  # fmt: skip
    fleet.workers.append(worker)
    fleet.add("other", "true", code=Code(image="other:1"))
    fleet.submit("plain", "true")
    fleet.add("a", "true", code=Code(image="tiny:1"))
    fleet.completed("a")
    until(lambda: "no --allow-image names other:1" in notes(fleet, "other"), "for a refusal")
    until(lambda: "no --allow-command names" in notes(fleet, "plain"), "for a refusal")


def notes(fleet: CodeFleet, id: str) -> str:
    return " ".join(event.note or "" for event in fleet.store.events(id))


@pytest.mark.parametrize(
    "image",
    ["", "-v", "--privileged", "dir:/etc", "docker-archive:/tmp/x.tar", "oci:/etc:x", "a b", "a\n",
     "https://example.org/x", "../x", "x@sha256:12", "X", "containers-storage:[overlay@/]x"],
)  # fmt: skip
def test_names_that_are_none_of_an_image_are_refused(image: str) -> None:
    with pytest.raises(BadInput, match="image"):
        check("code", Code(image=image))


def test_a_short_name_stands_for_one_registry() -> None:
    assert full_name("python") == "docker.io/library/python:latest"
    assert full_name("acme/tool:1") == "docker.io/acme/tool:1"
    assert full_name("localhost/x") == "localhost/x:latest"
    assert full_name("h.org:5000/a/b@" + DIGEST) == "h.org:5000/a/b@" + DIGEST
    assert repository_of("h.org:5000/a/b:1") == "h.org:5000/a/b"
    assert is_allowed("python:3.12", ("docker.io/library/*",))
    assert is_allowed("python:3.12", ("python:*",))
    assert not is_allowed("evil.org/python:3.12", ("python:*",))


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        ("python:5000/evil/x", "python:*"),
        ("python.evil.org/x", "python*"),
        ("acme.evil.org/tool", "acme*/tool"),
        ("evil.org/x.example.org/y", "*.example.org/*"),
        ("registry.example.org.evil.org/x", "registry.example.org*"),
        ("localhost/x", "local*/x"),
        ("docker.io/evil/acme/x", "acme/*"),
    ],
)
def test_a_pattern_stands_for_no_registry_that_it_does_not_name(image: str, pattern: str) -> None:
    assert not is_allowed(check_image(image), (pattern,))


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        ("evil.org/x", "*"),
        ("acme/x", "acme/*"),
        ("acme/x", "docker.io/*"),
        ("registry.example.org:5000/a/b/c:1", "registry.example.org:5000/a/*"),
        ("a.example.org/x", "*.example.org/*"),
        ("localhost/x", "localhost/*"),
    ],
)
def test_a_pattern_stands_for_what_is_below_its_registry(image: str, pattern: str) -> None:
    assert is_allowed(check_image(image), (pattern,))


def test_an_image_with_a_digest_is_that_one_whatever_the_store_says() -> None:
    rules = ImageRules(allowed=("*",), podman="podman")
    image, other = f"tiny@{DIGEST}", "sha256:" + "6" * 64
    task = Task("a", "q", command=("x",), code=Code(image=image), pinned=Pinned(image=other))

    asked = rules.process(task)["code"]

    assert (asked["digest"], asked["pinned"]["image"]) == (DIGEST, DIGEST)
    assert rules.process(replace(task, code=Code(image="tiny")))["code"]["pinned"]["image"] == other


def test_an_image_goes_with_a_command_and_with_nothing_that_is_installed() -> None:
    with pytest.raises(BadInput, match="goes with a command"):
        new_task(queue="default", name="f", code=Code(image="tiny"))
    for other in (Code("numpy", image="x"), Code(python="3.12", image="x"),
                  Code(git="https://h/x", image="x")):  # fmt: skip
        with pytest.raises(BadInput, match="brings all"):
            check("code", other)


def test_the_command_line_says_in_which_image(stayer: Here, store: Store, folder: Path) -> None:
    (folder / "train.py").write_text("# /// script\n# dependencies = ['numpy']\n# ///\n")
    stayer("add", "--id", "a", "--image", "python:3.12", "--", "python", "train.py").works()
    stayer("add", "--image", "dir:/etc", "--", "true").refuses("image")
    [task] = store.get(["a"])
    assert task is not None
    assert (task.cwd, task.code) == (None, Code(image="python:3.12"))
    assert "python:3.12" in stayer("show", "a").works().out
    assert json.loads(stayer("show", "--json", "a").works().out)["code"]["image"] == "python:3.12"


def test_a_worker_says_what_images_need(stayer: Here, folder: Path) -> None:
    words = "worker", "--allow-image", "*"
    stayer(*words, PATH=str(folder)).refuses("needs podman", "Docker is not used")
    stayer(*words, "--isolate", "pidns").refuses("leave one of them out")


def test_a_variable_with_lines_in_its_name_takes_none_of_podmans() -> None:
    """Of a line with a name alone, podman takes the value from its own variables."""
    name = "CUDA_A\nREGISTRY_AUTH_FILE\nB"
    with pytest.raises(BadInput, match="control characters"):
        new_task(queue="q", command=("env",), env={name: "x"})

    assert _variables({name: "x", "C": "y"}) == ("C=y\n", ["--env", f"{name}=x"])
