"""Readiness, from the origin stats of workers."""

from dataclasses import replace

from forebay.server.admin.readiness import Readiness, check_origin, degraded_journal, degraded_tiers
from forebay.server.admin.schema.stats_schema import JournalStats, OriginStats, TierStats

REACHED = OriginStats("http://origin", "reachable", "closed", 0, 0, 0, 0)
UNKNOWN = replace(REACHED, state="unknown")
REFUSED = replace(REACHED, state="unreachable", cause="connection refused", unreachable_for=3.2)
OPEN = replace(REFUSED, breaker="open", cause="name not resolved", unreachable_for=11.7)


def test_a_reached_origin_is_ready() -> None:
    assert check_origin([REACHED, REACHED]) == {}
    assert Readiness().ready
    assert Readiness().reasons == ()


def test_an_origin_without_news_is_not_ready() -> None:
    readiness = Readiness(check_origin([REACHED, UNKNOWN]))
    assert not readiness.ready
    assert readiness.reasons == ("The origin has not responded yet.",)


def test_an_outage_has_its_cause() -> None:
    assert check_origin([REFUSED]) == {"origin": "The origin can't be reached, for 3 s: connection refused."}
    begun = replace(REFUSED, unreachable_for=0.2)
    assert check_origin([begun]) == {"origin": "The origin can't be reached: connection refused."}


def test_outages_of_workers_are_one() -> None:
    assert check_origin([REFUSED, REACHED, OPEN]) == {
        "origin": "The origin can't be reached by 2 of 3 workers, for 12 s: connection refused, name not resolved. "
        "The breaker is open."
    }


def test_a_failing_tier_degrades_and_stays_ready() -> None:
    memory = TierStats("memory", "serving", 1, 0, 0, 0)
    ssd = TierStats("ssd", "failing", 1, 0, 0, 0, "write: [Errno 28] No space left on device")
    readiness = Readiness(check_origin([REACHED]), degraded_tiers([[memory, replace(ssd, state="serving")], [ssd]]))
    assert readiness.ready
    assert readiness.degraded == {
        "ssd": "The ssd tier fails, reads go on without it: write: [Errno 28] No space left on device."
    }


def test_a_journal_that_fails_degrades() -> None:
    sound = JournalStats(1000, 10, False, writes=3, objects=2, size=9, stuck=0, conflicts=0, oldest=12.0, max_age=60.0)
    failing = replace(sound, failure="No space left on device")
    assert degraded_journal([sound, failing, sound]) == {
        "journal": "The journal fails, so writes go through, or get 503: No space left on device."
    }


def test_a_journal_that_is_late_degrades() -> None:
    sound = JournalStats(1000, 10, False, writes=3, objects=2, size=9, stuck=0, conflicts=0, oldest=12.0, max_age=60.0)
    assert degraded_journal([None, None]) == {}
    assert degraded_journal([sound, sound]) == {}
    late = replace(sound, stuck=2, conflicts=3, oldest=61.0, is_full=True)
    assert degraded_journal([sound, late]) == {
        "journal": "Acknowledged writes that are stuck: 2; see `forebay writes ls --state stuck`. Acknowledged writes "
        "whose objects somebody else has written: 3; see `forebay writes ls --state conflict`. The oldest acknowledged "
        "write is not at the origin after 61 s; see `forebay writes`. The journal is nearly full, so writes go through."
    }
