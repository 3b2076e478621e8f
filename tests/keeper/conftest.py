"""A node for each test: a state directory, a good lease and a nursery."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.harness import PYTHON, SOURCE, TASK_USER, Node, for_others
from tests.servers.finding import NOT_TESTED

NOBODY = 65534
PUBLIC = ("/usr/bin", "/usr/local/bin")

collect_ignore = ["nasty.py"] if sys.platform == "linux" else ["."]

if TASK_USER is not None:

    @pytest.fixture
    def tmp_path() -> Path:
        """Where the user of the tasks can go: not below pytest's own folder."""
        folder = Path(tempfile.mkdtemp(prefix="stayer-keeper-"))
        folder.chmod(0o755)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # nodes that end use it
        return folder


@pytest.fixture
def make_node() -> Iterator[Callable[..., Node]]:
    """Nodes, ended after the test whatever it did."""
    nodes: list[Node] = []
    # Not below pytest's own folder, which another user can't enter.
    folder = Path(tempfile.mkdtemp(prefix="stayer-keeper-"))
    folder.chmod(0o755)

    def make(state: Path | None = None, **more: Any) -> Node:
        if state is None:
            state = folder / f"state-{len(nodes)}"
            state.mkdir()
        if TASK_USER is not None:
            more.setdefault("interpreter", python_for_others() or PYTHON)
        node = Node(state, **more)
        node.renew()
        nodes.append(node)
        return node

    yield make
    for node in reversed(nodes):
        node.close()
    shutil.rmtree(folder)


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()


@pytest.fixture
def nobody(make_node: Callable[..., Node]) -> Iterator[Node]:
    """The node of a user without rights, who can read what the test writes for it."""
    if os.getuid() != 0:
        pytest.skip("only root can become nobody; run as anybody else, all tests are of this kind")
    interpreter = python_for_others()
    if interpreter is None:
        pytest.skip(
            f"{NOT_TESTED}what a user without rights may do: user {NOBODY} can run no Python of "
            f"3.11 or newer that can read {for_others()} ({PYTHON}, or one in {', '.join(PUBLIC)})"
        )
    before = os.umask(0o022)
    yield make_node(user=NOBODY, interpreter=interpreter)
    os.umask(before)


@functools.cache
def python_for_others() -> str | None:
    """A Python that nobody may run, and that can read the copy of the keeper's code. The one of
    the tests may be in somebody's home.
    """
    program = for_others() / SOURCE.name / "__main__.py"
    code = "import sys; sys.exit(sys.version_info < (3, 11) or not open(sys.argv[1]).read())"
    who = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    names = ("python3", *(f"python3.{minor}" for minor in range(15, 10, -1)))
    for interpreter in (PYTHON, *(f"{folder}/{name}" for name in names for folder in PUBLIC)):
        # By a shell: setpriv itself may still read what the user can't, and so start any program.
        words = [*who, "sh", "-c", 'exec "$@"', "sh"]
        words += [interpreter, "-I", "-S", "-c", code, str(program)]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return interpreter
    return None
