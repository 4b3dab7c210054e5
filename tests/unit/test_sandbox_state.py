"""The sandbox's lanes by hand: the order of checks, the window, the quota and its dips, sabotage."""

from __future__ import annotations

import pytest

from streams.adapters.http.sandbox import parse_lane
from streams.adapters.http.sandbox_state import Lane, LaneSettings, Verdict
from streams.domain.errors import InvalidInput

T = 1_000.0


def a_lane(**settings: float) -> Lane:
    return Lane("mail", LaneSettings(rate_per_s=10, burst=2).changed(settings), T)


def verdict(lane: Lane, key: str | None, now_s: float = T, body: bytes = b"1") -> Verdict:
    return lane.decide(key, body, now_s, 0.5).verdict


def test_a_key_is_accepted_in_progress_then_replayed_with_its_answer() -> None:
    lane = a_lane()
    accepted = lane.decide("k", b"1", T, 0.5)
    assert (accepted.verdict, accepted.effects, accepted.lost) == (Verdict.ACCEPTED, 1, False)
    assert verdict(lane, "k") is Verdict.IN_PROGRESS
    lane.finish("k", accepted.answer)
    again = lane.decide("k", b"1", T, 0.5)
    assert (again.verdict, again.answer) == (Verdict.REPLAYED, b'{"id":"mail-1"}')


def test_a_replay_uses_no_quota_and_is_not_refused_for_it() -> None:
    lane = a_lane()
    lane.finish("k", lane.decide("k", b"1", T, 0.5).answer)
    assert verdict(lane, "other") is Verdict.ACCEPTED
    assert verdict(lane, "third") is Verdict.RATE_LIMITED
    assert [verdict(lane, "k") for _ in range(9)] == [Verdict.REPLAYED] * 9


def test_other_bytes_under_a_used_key_are_refused() -> None:
    lane = a_lane()
    lane.finish("k", lane.decide("k", b"1", T, 0.5).answer)
    assert verdict(lane, "k", body=b"2") is Verdict.MISMATCHED
    assert lane.stats()["accepted"] == 1


def test_after_the_window_a_key_is_new_and_its_effect_a_duplicate() -> None:
    lane = a_lane(idempotency_window_s=60)
    lane.finish("k", lane.decide("k", b"1", T, 0.5).answer)
    assert verdict(lane, "k", T + 59.9) is Verdict.REPLAYED
    assert verdict(lane, "k", T + 60) is Verdict.ACCEPTED
    assert (lane.stats()["duplicates"], lane.stats()["distinct_keys"]) == (1, 1)


def test_without_a_window_or_a_key_nothing_is_recognised() -> None:
    lane = a_lane(idempotency_window_s=0, burst=10)
    for key in ("k", "k", None, None):
        decision = lane.decide(key, b"1", T, 0.5)
        assert decision.verdict is Verdict.ACCEPTED
        lane.finish(key, decision.answer)
    assert lane.stats()["duplicates"] == 1


def test_the_quota_says_when_there_is_room() -> None:
    lane = a_lane()
    assert [verdict(lane, k) for k in "ab"] == [Verdict.ACCEPTED] * 2
    refused = lane.decide("c", b"1", T, 0.5)
    assert (refused.verdict, refused.retry_after_s) == (Verdict.RATE_LIMITED, pytest.approx(0.1))
    assert verdict(lane, "c", T + 0.1) is Verdict.ACCEPTED
    assert (lane.stats()["rate_limited"], lane.stats()["over_quota"]) == (1, 1)


def test_a_dip_bites_at_once_and_ends_and_is_no_fault_of_the_client() -> None:
    lane = a_lane(rate_per_s=100, burst=10)
    lane.dip(10, T + 2)
    assert [verdict(lane, k) for k in "ab"] == [Verdict.ACCEPTED, Verdict.RATE_LIMITED]
    assert lane.stats()["over_quota"] == 0
    assert [verdict(lane, f"k{n}", T + 3) for n in range(10)] == [Verdict.ACCEPTED] * 10


def test_a_share_of_answers_is_lost() -> None:
    lane = a_lane(lost_answer_share=0.3)
    assert lane.decide("a", b"1", T, 0.29).lost
    assert not lane.decide("b", b"1", T, 0.3).lost


def test_sabotage_hits_the_next_accepted_request_only() -> None:
    lane = a_lane(burst=10)
    for kind, effects in (("drop", 0), ("double", 2)):
        lane.sabotage(kind)
        assert [lane.decide(f"{kind}{n}", b"1", T, 0.5).effects for n in range(2)] == [effects, 1]
    assert lane.stats()["duplicates"] == 1


def test_remembered_keys_are_replayed_whatever_their_bytes() -> None:
    lane = a_lane()
    lane.remember("k", T - 10)
    assert verdict(lane, "k", body=b"anything") is Verdict.REPLAYED


def test_lanes_on_the_command_line() -> None:
    assert parse_lane("eu-mail:rate=300,burst=60,latency=0.02,lost=0.003,window=60") == (
        "eu-mail",
        LaneSettings(300, 60, 0.02, 0.003, 60),
    )
    assert parse_lane("plain") == ("plain", LaneSettings())


@pytest.mark.parametrize(
    "text", ["", ":rate=3", "a/b:rate=3", "a:rate", "a:rate=x", "a:rat=3", "a:rate=0", "a:burst=1.5", "a:lost=2"]
)
def test_wrong_lanes_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="lane"):
        parse_lane(text)
