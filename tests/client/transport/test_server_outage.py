"""How long a server that can't be connected to is waited for."""

from forebay_client.transport.server_outage import FORGOTTEN, ServerOutage


class Clocked:
    """An outage with a clock of the test's."""

    def __init__(self, patience: float = 5.0) -> None:
        self.now = 1000.0
        self.outage = ServerOutage("http://h:9", patience, 120.0, lambda: self.now)

    def attempt(self, seconds: float = 0.0) -> bool:
        """Whether the server may be waited for, after an attempt of so many seconds."""
        self.now += seconds
        return self.outage.failed("No route to host", seconds).may_wait


def test_the_wait_is_that_of_all_requests_together() -> None:
    clocked = Clocked()
    assert clocked.attempt()
    clocked.now += 4.9
    assert clocked.attempt()
    clocked.now += 0.1
    assert not clocked.attempt()
    assert not clocked.attempt()
    clocked.outage.ended()
    assert clocked.attempt()


def test_the_message_names_server_reason_and_time() -> None:
    clocked = Clocked()
    hint = "Is the server running, and the endpoint right?"
    assert str(clocked.outage.failed("Refused", 0.0)) == f"no connection to http://h:9: Refused. {hint}"
    clocked.now += 5
    assert str(clocked.outage.failed("Refused", 0.0)) == f"no connection to http://h:9: Refused, tried for 5 s. {hint}"


def test_an_attempt_that_waited_speaks_for_others_as_long() -> None:
    clocked = Clocked()
    assert clocked.attempt(10.0)
    assert clocked.outage.known() is None  # it may be waited for
    assert not clocked.attempt(10.0)
    clocked.now += 9.9
    known = clocked.outage.known()
    assert known is not None
    assert not known.may_wait
    clocked.now += 0.1
    assert clocked.outage.known() is None
    assert not clocked.attempt(10.0)
    clocked.outage.ended()
    assert clocked.outage.known() is None


def test_a_refusal_at_once_speaks_for_nobody() -> None:
    clocked = Clocked(patience=0.0)
    assert not clocked.attempt()
    assert clocked.outage.known() is None


def test_after_a_while_without_attempts_it_is_another_outage() -> None:
    clocked = Clocked()
    assert clocked.attempt()
    clocked.now += FORGOTTEN
    assert not clocked.attempt()
    clocked.now += FORGOTTEN + 0.1
    assert clocked.attempt()


def test_a_server_without_answers_is_given_up_by_time_of_all_requests() -> None:
    clocked = Clocked()
    for expected in (True, False):  # two attempts of a minute, of any of the requests
        clocked.now += 60.0
        clocked.outage.connected()  # it takes connections all the time
        assert clocked.outage.unanswered(60.0).may_wait is expected


def test_one_request_at_a_time_finds_out_whether_it_answers_again() -> None:
    clocked = Clocked()
    clocked.now += 60.0
    clocked.outage.unanswered(60.0)
    clocked.now += 60.0
    clocked.outage.unanswered(60.0)
    assert clocked.outage.known() is None  # one tries at once: what had no answer may have been one object
    known = clocked.outage.known()
    assert known is not None
    assert not known.may_wait
    assert str(known) == "no response from http://h:9: timed out, tried for 120 s. Does the server hang?"
    clocked.now += 60.0
    assert clocked.outage.known() is None
    assert clocked.outage.known() is not None
    clocked.outage.ended()
    assert clocked.outage.known() is None


def test_a_response_between_two_timeouts_means_that_it_answers() -> None:
    clocked = Clocked()
    for _ in range(5):
        clocked.now += 60.0
        assert clocked.outage.unanswered(60.0).may_wait
        clocked.outage.ended()
