"""Every edge of every field of the API's description, as Schemathesis finds them. It does so when
it is collected, for as long as hundreds of other tests take: see `pytest_ignore_collect`.
"""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import Phase, settings

from stayer.http.openapi import describe
from tests.http.serving import Site
from tests.http.test_schema import BOUNDED, busy, check

__all__ = ["busy"]

schema = schemathesis.openapi.from_dict(describe())


@pytest.mark.long
@schema.parametrize()
@settings(**{**BOUNDED, "max_examples": 15}, phases=[Phase.explicit, Phase.generate])
def test_every_edge_is_what_the_description_says(case: Any, busy: Site) -> None:
    check(case, busy)
