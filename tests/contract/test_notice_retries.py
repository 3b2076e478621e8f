"""Notices that are retried, or old: who may give them up, and who may settle them."""

from __future__ import annotations

import pytest

from stayer.core.notify import notices
from stayer.core.notify.notices import Delivery
from stayer.store import Store
from tests.contract.builders import Clock
from tests.contract.test_notices import AGE, LEASE, due, taken_one, tell


def test_what_is_put_back_counts_for_no_try(store: Store, clock: Clock) -> None:
    tell(store, 1)
    for number in range(1, 4):
        notice = taken_one(store)
        assert (notice.tries, notice.forgiven) == (number, number - 1)
        later = Delivery(False, "others are told first", after=10, is_put_back=True)
        assert store.settle_notice(notice, later)
        assert not store.settle_notice(notice, later)
        assert due(store) == []
        clock.advance(10)
    notice = taken_one(store)
    assert store.settle_notice(notice, Delivery(False, "500", after=10))
    clock.advance(10)
    notice = taken_one(store)
    assert (notice.state, notice.tries - notice.forgiven) == ("pending", 2)


class TestWhatNobodyTries:
    def test_an_old_one_that_is_retried_has_its_time_again(
        self, store: Store, clock: Clock
    ) -> None:
        # Given one that failed long ago, and is retried
        tell(store, 1)
        notice = taken_one(store)
        store.settle_notice(notice, Delivery(False, "410 Gone"))
        clock.advance(2 * AGE)
        assert store.retry_notices([notice.id]) == 1

        # When somebody looks who does not know its hook, as long as others may still come
        for _ in range(2):
            assert due(store, "other") == []
            clock.advance(AGE / 2)

        # Then it is still there for those who know it, and not too old to be tried again
        again = taken_one(store)
        assert again.id == notice.id
        assert (notice.age(clock.now), again.age(clock.now)) == (3 * AGE, AGE)

    def test_and_fails_if_they_do_not_come(self, store: Store, clock: Clock) -> None:
        tell(store, 1)
        notice = taken_one(store)
        store.settle_notice(notice, Delivery(False, "410 Gone"))
        clock.advance(2 * AGE)
        store.retry_notices([notice.id])
        clock.advance(AGE + 1)
        assert due(store, "other") == []
        assert store.notices(None, "failed", None, 10).notices[0].said == notices.NOBODY

    def test_one_that_is_being_delivered_is_not_given_up_by_others(
        self, store: Store, clock: Clock
    ) -> None:
        tell(store, 1)
        clock.advance(2 * AGE)
        notice = taken_one(store)
        clock.advance(LEASE - 1)
        assert due(store, "other") == []
        assert store.settle_notice(notice, Delivery(True, "200"))

    def test_who_is_patient_is_not_cut_short_by_who_is_not(
        self, store: Store, clock: Clock
    ) -> None:
        # Given one that those who know its hook try for longer than others would
        tell(store, 1)
        clock.advance(2 * AGE)
        store.settle_notice(taken_one(store), Delivery(False, "500", after=100))

        # When it is due again, and one of the others is there first
        clock.advance(101)
        assert due(store, "other") == []

        # Then it is tried all the same
        assert taken_one(store).tries == 2


class TestARetryDuringADelivery:
    @pytest.mark.parametrize("after", [None, 100.0])
    def test_takes_it_from_who_has_it(self, store: Store, after: float | None) -> None:
        tell(store, 1)
        first = taken_one(store)
        assert store.retry_notices([first.id]) == 1
        late = Delivery(False, "500", after=after)

        # Neither before nor after somebody else has it
        assert not store.settle_notice(first, late)
        second = taken_one(store)
        assert not store.settle_notice(first, late)
        assert store.settle_notice(second, Delivery(True, "200"))
        assert store.notices(None, "delivered", None, 10).notices[0].said == "200"

    def test_is_not_needed_if_that_was_heard(self, store: Store) -> None:
        tell(store, 1)
        first = taken_one(store)
        store.retry_notices([first.id])
        assert store.settle_notice(first, Delivery(True, "200"))
        assert due(store) == []

    def test_each_of_several_counts(self, store: Store) -> None:
        tell(store, 1)
        store.retry_notices([taken_one(store).id])
        second = taken_one(store)
        store.retry_notices([second.id, second.id])
        third = taken_one(store)
        assert (second.tries, second.forgiven) == (2, 1)
        assert (third.tries, third.forgiven) == (3, 2)
        assert not store.settle_notice(second, Delivery(False, "410"))
        assert store.settle_notice(third, Delivery(False, "410"))
