"""The small parts of delivery: statuses, waiting, the queue, maintenance windows, the lease."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Mute
from agent.outputs.delivery.answers import answer_of
from agent.outputs.delivery.backoff import LONGEST_SECONDS, Backoff
from agent.outputs.delivery.lease import EXPIRES_SECONDS, Lease
from agent.outputs.delivery.muting import is_muted
from agent.outputs.delivery.queue import Queue
from tests.outputs.delivery.pagers import T, alert

NewLease = Callable[[str], Lease]


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[NewLease]:
    """Makes replicas' leases on one folder, given the names of their hosts."""
    made: list[Lease] = []

    def new(host: str) -> Lease:
        made.append(Lease(tmp_path, host))
        return made[-1]

    yield new
    for each in made:
        each.release()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, "accepted"), (202, "accepted"), (302, "refused"), (400, "refused"), (404, "refused"), (408, "retry"),
     (429, "retry"), (500, "retry"), (503, "retry")],
)  # fmt: skip
def test_only_what_may_get_better_is_tried_again(status: int, kind: str) -> None:
    assert answer_of(status, "", None, T).kind == kind


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0), ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0), ("soon", None),
     ("nan", None), ("1e9", 900.0), (None, None)],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert answer_of(503, "", header, T).retry_after_seconds == seconds


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_waiting_doubles_up_to_a_minute_and_is_never_quite_the_same(seed: int, failures: int) -> None:
    backoff = Backoff(random.Random(seed))
    waits = [backoff.failed() for _ in range(failures)]
    for count, wait in enumerate(waits):
        whole = min(LONGEST_SECONDS, 2.0**count)
        assert 0.5 * whole <= wait <= whole
    backoff.succeeded()
    assert backoff.failed() <= 1.0


def test_the_newest_state_of_an_incident_wins_and_keeps_its_place() -> None:
    queue = Queue()
    queue.put(alert("a"), 1.0)
    queue.put(alert("b"), 2.0)
    older = queue.first()
    assert older is not None
    queue.put(alert("a", ended=T + 9), 3.0)
    queue.done(older.alert)
    newer = queue.first()
    assert newer is not None
    assert (newer.alert.ends_at, newer.since, len(queue)) == (T + 9, 1.0, 2)


def test_a_full_queue_drops_ends_before_begins() -> None:
    queue = Queue(most=2)
    queue.put(alert("a"), 1.0)
    queue.put(alert("b", ended=T + 1), 2.0)
    dropped = queue.put(alert("c"), 3.0)
    assert dropped is not None
    assert dropped.labels["objective"] == "b"
    dropped = queue.put(alert("d"), 4.0)
    assert dropped is not None
    assert dropped.labels["objective"] == "a"


def test_a_window_holds_back_what_began_in_it_and_not_what_was_told_before() -> None:
    once = Mute(from_seconds=T, to_seconds=T + 3600, labels=(("scope", "decode"),))
    assert is_muted(alert(began=T + 10), [once], T + 20)
    assert not is_muted(alert(began=T - 10), [once], T + 20)
    assert not is_muted(alert(began=T + 10), [once], T + 3600)
    elsewhere = Mute(from_seconds=T, to_seconds=T + 3600, labels=(("scope", "prefill"),))
    assert not is_muted(alert(began=T + 10), [elsewhere], T + 20)
    # 22:13:20 UTC; told in the morning, after the night's window: not muted by the next night's.
    nightly = Mute(hours="22:00-04:00")
    assert is_muted(alert(), [nightly], T + 5 * 3600)
    assert not is_muted(alert(), [nightly], T + 23.9 * 3600)
    assert not is_muted(alert(), [nightly], T + 24 * 3600)


def test_a_lease_has_one_holder_and_goes_on_when_it_is_given_back(lease: NewLease) -> None:
    one, other = lease("a"), lease("b")
    assert one.renew(0.0)
    assert not other.renew(0.0)
    assert one.renew(5.0)
    assert not other.renew(5.0)
    one.release()
    assert other.renew(6.0)
    assert not one.renew(6.0)


def test_a_holder_that_stands_still_loses_the_lease_and_knows_it(lease: NewLease) -> None:
    one, other = lease("a"), lease("a")
    one.renew(0.0)
    assert not other.renew(0.0)
    assert not other.renew(EXPIRES_SECONDS - 1)
    assert not one.is_held(EXPIRES_SECONDS / 2)
    assert not one.is_anothers()
    assert other.renew(EXPIRES_SECONDS)
    assert one.is_anothers()
    assert not other.is_anothers()
    assert not one.renew(EXPIRES_SECONDS + 1)
    assert other.renew(EXPIRES_SECONDS + 2)


def test_who_died_on_the_same_host_is_followed_at_once_and_on_another_after_a_while(lease: NewLease) -> None:
    dead = lease("a")
    dead.renew(0.0)
    dead._end_life()  # what the kernel does when a process is killed
    assert not lease("b").renew(1.0)
    assert lease("a").renew(1.0)


def test_without_a_shared_folder_everybody_sends(tmp_path: Path) -> None:
    assert Lease(None).is_held(0.0)
    broken = Lease(tmp_path)
    broken.failed(0.0)
    assert not broken.is_held(1.0)
    broken.failed(EXPIRES_SECONDS)
    assert broken.is_held(EXPIRES_SECONDS)


def test_a_replica_put_to_sleep_in_the_middle_of_a_change_keeps_nobody_waiting(
    lease: NewLease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.outputs.delivery.lease.GUARD_SECONDS", 0.05)
    asleep, awake = lease("a"), lease("b")
    assert asleep.renew(0.0)
    with asleep._guarded(0.0):
        with pytest.raises(TimeoutError, match="another process has had its lock for too long"):
            awake.renew(0.0)
        awake.failed(0.0)
        assert not awake.is_held(0.0)
        awake.failed(EXPIRES_SECONDS)  # a page twice is better than none
        assert awake.is_held(EXPIRES_SECONDS)
    assert not awake.renew(EXPIRES_SECONDS + 1)


def test_a_renewal_that_comes_after_the_end_takes_nothing(lease: NewLease) -> None:
    one = lease("a")
    one.release()
    assert not one.renew(0.0)
    assert lease("b").renew(0.0)
