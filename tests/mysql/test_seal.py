"""The triggers that seal a store that is moved: each is made for good, whatever follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import Refused, StoreMoved
from stayer.core.move.records import Seal
from stayer.service.move import move
from stayer.stores import open_store
from stayer.stores.sql.mysql import MySqlStore, seal
from stayer.stores.sql.mysql.transaction import MySqlTransaction
from tests.contract.builders import counts, fill, new, register
from tests.mysql.conftest import asked


def test_a_move_that_was_killed_while_it_sealed_seals_the_rest_when_it_goes_on(
    store: MySqlStore, hand: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a move that was killed after some of the triggers
    fill(store, 2)
    target = open_store(f"sqlite:///{tmp_path}/target.db")
    target.setup()
    made = 0
    sql = MySqlTransaction.sql

    def killed(self: MySqlTransaction, text: str) -> Any:
        nonlocal made
        made += "CREATE TRIGGER" in text
        if made == 5:
            raise KeyboardInterrupt
        return sql(self, text)

    with monkeypatch.context() as patch:
        patch.setattr(MySqlTransaction, "sql", killed)
        with pytest.raises(KeyboardInterrupt):
            move(store, target, lambda _: None)
    assert 0 < len(triggers(hand)) < len(seal._TRIGGERS)
    # When a worker comes, because it could
    register(store, lease=1000.0)
    # Then the move sees it, and has sealed everything
    with pytest.raises(Refused, match="worker"):
        move(store, target, lambda _: None)
    assert triggers(hand) == set(seal._TRIGGERS)
    with pytest.raises(StoreMoved):
        fill(store, 1)
    target.close()


def test_a_transaction_that_does_not_see_the_seal_brings_nothing(
    store: MySqlStore, callers: list[Any]
) -> None:
    fill(store, 1)
    asked(callers[0], "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    store.put_seal(Seal(move="m", role="source", other="elsewhere", other_identity="e", at=1.0))
    with pytest.raises(StoreMoved, match="elsewhere"):
        store.submit_on(callers[0], [new("a")])
    callers[0].rollback()
    store.put_seal(None)
    assert counts(store) == {"pending": 1}


def triggers(hand: Any) -> set[str]:
    rows = asked(
        hand,
        "SELECT trigger_name FROM information_schema.triggers "
        "WHERE trigger_schema = database() AND trigger_name LIKE 'stayer_sealed%'",
    )
    return {name for (name,) in rows}
