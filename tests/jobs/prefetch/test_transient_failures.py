"""Which failures of a fetch are transient."""

import pytest

from forebay.core.errors import ForebayError, OriginBroken, OriginRefused, OriginUnfit, OriginUnreachable, Throttled
from forebay.jobs.prefetch.transient_failures import is_transient


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (OriginUnreachable("no connection"), True),
        (OriginBroken("cut short"), True),
        (Throttled("no turn"), True),
        (OriginRefused(503, (), b""), True),
        (OriginRefused(429, (), b""), True),
        (OriginRefused(404, (), b""), False),
        (OriginUnfit("encoded"), False),
        (ForebayError("anything else"), False),
    ],
)
def test_a_failure_is_transient_if_it_may_not_last(failure: ForebayError, expected: bool) -> None:
    assert is_transient(failure) is expected
