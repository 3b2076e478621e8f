"""A node for each test: a state directory, a good lease and a nursery."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.harness import PYTHON, Node

NOBODY = 65534

collect_ignore = ["nasty.py"] if sys.platform == "linux" else ["."]


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
def nobody(make_node: Callable[..., Node]) -> Node:
    """The node of a user without rights."""
    if os.getuid() != 0:
        pytest.skip("only root can become nobody; run as anybody else, all tests are of this kind")
    who = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    for interpreter in (PYTHON, "/usr/bin/python3"):
        code = f"exec {interpreter} -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))'"
        if (
            subprocess.run([*who, "sh", "-c", code], capture_output=True, check=False).returncode
            == 0
        ):
            return make_node(user=NOBODY, interpreter=interpreter)
    pytest.skip("no Python that nobody may run")
