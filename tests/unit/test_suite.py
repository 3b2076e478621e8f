"""Lists that name test modules name some that exist: a module that was renamed would else drop out
of the short run, or into it, without a word.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import SAID_ELSEWHERE
from tests.contract.conftest import ALSO_ALIKE, MANY_PROCESSES

TESTS = Path(__file__).parents[1]


def test_modules_of_the_contract_exist() -> None:
    named = {*ALSO_ALIKE, *MANY_PROCESSES}
    assert named - {path.name for path in (TESTS / "contract").glob("test_*.py")} == set()


def test_modules_left_to_the_long_tests_exist() -> None:
    assert [name for name in SAID_ELSEWHERE if not (TESTS / name).exists()] == []


def test_modules_that_the_makefile_leaves_out_exist() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    [names] = re.findall(r"addprefix %test_,\$\(addsuffix .py,([\w\s\\]+)\)", makefile)
    wanted = [f"test_{name}.py" for name in names.replace("\\", " ").split()]
    assert wanted
    assert [name for name in wanted if not (TESTS / "faults" / name).exists()] == []
