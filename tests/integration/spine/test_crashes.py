"""Delivery workers killed or standing still in the middle of a send, and answers that are lost: one effect each."""

from __future__ import annotations

import signal

from tests.spine import REGIONS, Spine, both, pair, promised

_CLAIMANTS = (
    "SELECT count(DISTINCT a.session) FROM attempt a JOIN occurrence o USING (date, key, mode) WHERE o.schedule_id = %s"
)
_SENDING = "SELECT count(*) FROM queue WHERE state = 'sending' AND schedule_id = %s"


def wait_held(spine: Spine, count: int) -> None:
    """Until the provider has accepted so many requests and keeps their answers back."""
    spine.wait(lambda: spine.sandbox.stats()["mail"]["held"] >= count, 30, lambda: f"{spine.sandbox.stats()}")


def test_an_answer_that_is_lost_is_asked_for_again(spine: Spine) -> None:
    """Retry after acceptance before record: the provider acts, and the line breaks before it has answered."""
    day, minutes = "2027-04-12", range(1, 11)
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("lost", day, minutes))
    spine.sandbox.change("mail", lost_answer_share=1.0)
    spine.tick(12)
    spine.settled(*both("lost"))
    assert spine.effects(*both("lost")) == promised("lost", day, minutes)
    assert {(row.state, row.attempts) for one in both("lost") for row in spine.rows(one)} == {("done", 2)}


def test_workers_killed_after_acceptance_and_before_the_record(spine: Spine) -> None:
    """Every worker of both regions gets SIGKILL while the provider holds the answers to what it has accepted."""
    day, minutes = "2027-04-13", range(1, 11)
    ids = both("accepted")
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("accepted", day, minutes))
    spine.sandbox.change("mail", hold=True)
    spine.tick(12)
    wait_held(spine, 2 * len(minutes))
    spine.kill(*spine.workers())
    assert spine.effects(*ids) == promised("accepted", day, minutes)
    assert all(spine.one(_SENDING, one) for one in ids)
    spine.sandbox.change("mail", hold=False)
    spine.again(*spine.workers())
    spine.settled(*ids)
    assert spine.effects(*ids) == promised("accepted", day, minutes)
    for one in ids:
        assert all(row.state == "done" and row.attempts >= 2 for row in spine.rows(one)), spine.rows(one)
        assert spine.outcomes(one, 1) == {"unknown"}


def test_a_worker_killed_while_sending_is_replaced_by_the_other(spine: Spine) -> None:
    """The provider stands still, so nobody knows what it has taken. One worker of each region gets SIGKILL."""
    day, minutes = "2027-04-14", range(1, 21)
    ids = both("sending")
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("sending", day, minutes))
    spine.freeze("sandbox")
    spine.tick(22)
    for region in REGIONS:
        spine.kill(spine.sending(region, "sending"))
    spine.freeze("sandbox", signal.SIGCONT)
    spine.settled(*ids)
    assert spine.effects(*ids) == promised("sending", day, minutes)
    assert {row.state for one in ids for row in spine.rows(one)} == {"done"}
    assert any(row.attempts > 1 for row in spine.rows("sending-eu"))
    assert any(row.attempts > 1 for row in spine.rows("sending-us"))


def test_two_claimants_of_one_key(spine: Spine) -> None:
    """The first stands still while it sends, until its lease is over; the second takes over; the first wakes up."""
    day = "2027-04-15"
    ids = both("claimed")
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("claimed", day, [1]))
    spine.sandbox.change("mail", hold=True)
    spine.tick(2)
    wait_held(spine, 2)
    first = [spine.sending(region, "claimed") for region in REGIONS]
    for name in first:
        spine.freeze(name)
    for one in ids:
        spine.until(2, _CLAIMANTS, one)
    assert [effect.schedule_id for effect in spine.effects(*ids)] == ids
    spine.sandbox.change("mail", hold=False)
    spine.settled(*ids)
    before = {one: spine.rows(one) for one in ids}
    for name in first:
        spine.freeze(name, signal.SIGCONT)
    for name in first:
        spine.wait_said(name, "the lease was lost")
    spine.apply(*pair("afterwards", day, [5]))
    spine.tick(6)
    spine.settled(*both("afterwards"))
    assert spine.effects(*both("afterwards")) == promised("afterwards", day, [5])
    assert spine.effects(*ids) == promised("claimed", day, [1])
    assert {one: spine.rows(one) for one in ids} == before
    for one in ids:
        ((nominal, state, attempts, revision),) = before[one]
        assert (state, revision) == ("done", 1)
        assert attempts >= 2, nominal
