"""The pauses of a plan while its fetches fail."""

from forebay.jobs.plans.plan_retry import ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS, PlanRetry


def test_pauses_double_while_nothing_comes() -> None:
    retry, now, pauses = PlanRetry(), 100.0, []
    for _ in range(9):
        assert retry.failed(now, 1)
        pauses.append(round(retry.until - now, 3))
        now = retry.until
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    retry.succeeded()
    retry.failed(now, 1)
    assert round(retry.until - now, 3) == FIRST_PAUSE


def test_fetches_that_fail_together_are_one_pause() -> None:
    retry = PlanRetry()
    for _ in range(64):
        assert retry.failed(1.0, 1)
    assert retry.until == 1.0 + FIRST_PAUSE


def test_an_entry_is_left_out_while_others_come() -> None:
    retry = PlanRetry()
    assert retry.failed(1.0, ATTEMPTS - 1)
    retry.succeeded()
    assert not retry.failed(2.0, ATTEMPTS)


def test_so_is_one_that_fails_during_the_pause_of_another_one() -> None:
    retry = PlanRetry()
    assert retry.failed(1.0, 1)
    retry.succeeded()
    assert not retry.failed(1.0, ATTEMPTS)


def test_an_outage_leaves_out_nothing_for_long() -> None:
    retry, now = PlanRetry(), 0.0
    for attempts in range(1, MOST_ATTEMPTS):
        now = max(now, retry.until)
        assert retry.failed(now, attempts)
    assert now > 60.0
    assert not retry.failed(retry.until, MOST_ATTEMPTS)
