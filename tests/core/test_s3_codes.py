"""S3's error codes: each has a status, and a message that an error of it says."""

import pytest

from forebay.core.errors import S3Error
from forebay.core.s3_codes import S3_CODES


@pytest.mark.parametrize("code", sorted(S3_CODES))
def test_a_code_has_its_status_and_message(code: str) -> None:
    error = S3Error(code, Key="k")
    status, message = S3_CODES[code]
    assert (error.status, error.message, error.details) == (status, message, {"Key": "k"})
    assert 400 <= status < 600
    assert str(error) == f"{code}: {message}"
