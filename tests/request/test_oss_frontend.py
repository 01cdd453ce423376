"""A request is signed in the dialect that it speaks, or refused: a last guard, as the claims refuse it too."""

import time
from typing import Any

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore
from forebay.protocol.signatures.verified import Signed, SignedOss, SignedV4
from forebay.protocol.target import parse_target
from forebay.request.oss_frontend import OssFrontend
from forebay.storage.spool import Spool
from forebay.write.length_spooler import LengthSpooler
from forebay.write.multipart.upload_parts import MultipartRegistry


class Speaks:
    speaks_oss = False


class Origin:
    dialect, region = Speaks(), "r"


def understood(headers: dict[str, str], signed: Any) -> object:
    origin: Any = Origin()
    measuring = LengthSpooler(Spool(0, FairSemaphore(0), share=0, wait=0), 0, 0)
    front = OssFrontend(origin, origin, measuring, MultipartRegistry(time.monotonic, 1))
    proof: Signed | None = signed
    return front.translate("GET", parse_target("/b/k", "h", ()), CIMultiDict(headers), proof)


def bare(kind: type[tuple[Any, ...]]) -> Any:
    """One that nobody looks into."""
    return tuple.__new__(kind, ())


def test_who_speaks_a_dialect_is_understood_in_it() -> None:
    assert understood({"Authorization": "OSS a:b"}, bare(SignedOss)) is not None
    assert understood({"x-oss-date": str(time.time())}, None) is not None
    assert understood({"Authorization": "AWS4-HMAC-SHA256 a"}, bare(SignedV4)) is None
    assert understood({}, None) is None


@pytest.mark.parametrize(
    ("authorization", "signed"), [("OSS a:b", SignedV4), ("AWS4-HMAC-SHA256 a", SignedOss), ("OSS2 a", SignedV4)]
)
def test_what_is_signed_in_the_other_dialect_is_refused(authorization: str, signed: type[tuple[Any, ...]]) -> None:
    with pytest.raises(S3Error, match="dialect"):
        understood({"Authorization": authorization}, bare(signed))
