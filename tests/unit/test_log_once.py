"""What is wrong with a store is told once in a while."""

from __future__ import annotations

import logging

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.service.degraded import log_once

logger = logging.getLogger("stayer.test")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_the_same_is_told_once_whoever_finds_out(caplog: pytest.LogCaptureFixture) -> None:
    log_once.is_over()
    caplog.set_level(logging.DEBUG, "stayer.test")
    log_once.warn_once(logger, "asking again", StoreUnreachable("gone"))
    log_once.warn_once(logger, "a beat failed", StoreUnreachable("gone"))
    log_once.warn_once(logger, "asking again", StoreUnreachable("full"))
    assert told(caplog) == ["asking again: gone", "asking again: full"]
    assert len(caplog.records) == 3, "each time, for whoever wants details"


def test_what_matters_more_is_told_also_after_somebody_else_told_of_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_once.is_over()
    log_once.warn_once(logger, "notices come later", StoreUnreachable("gone"))
    for _ in range(2):
        log_once.warn_once(logger, "a beat failed", StoreUnreachable("gone"), even_if_logged=True)
    log_once.warn_once(logger, "notices come later", StoreUnreachable("gone"))
    assert told(caplog) == ["notices come later: gone", "a beat failed: gone"]


def test_after_its_end_and_after_a_while_it_is_news(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_once.is_over()
    log_once.warn_once(logger, "asking again", StoreUnreachable("gone"))
    log_once.is_over()
    log_once.warn_once(logger, "asking again", StoreUnreachable("gone"))
    monkeypatch.setattr(log_once, "_REPEAT_AFTER_S", 0.0)
    log_once.warn_once(logger, "asking again", StoreUnreachable("gone"))
    assert told(caplog) == ["asking again: gone"] * 3
