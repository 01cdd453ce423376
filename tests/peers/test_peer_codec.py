"""The peer codec: what is encoded decodes to the same; a damaged document raises PeerUnavailable."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import (
    OrderRefused,
    OriginBroken,
    OriginCredentialFault,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    PeerUnavailable,
    Throttled,
    VersionChanged,
)
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.origin.reads.read_outcomes import ErrorResponse
from forebay.peers.frames import Document
from forebay.peers.peer_codec import (
    decode,
    decode_error_response,
    decode_failure,
    decode_head,
    decode_name,
    decode_span,
    encode_error_response,
    encode_failure,
    encode_head,
    encode_name,
    encode_span,
)

HEAD = Head(
    ObjectFacts(Version('"etag"', "v1"), 12345, "Fri, 20 Nov 2026 10:00:00 GMT", (("content-type", "a/b"),), True),
    1 << 20,
    Generation(bytes(range(8))),
    1_800_000_000.25,
    by_id=True,
)


def over(document: Any) -> Any:
    """Returns a document as JSON carries it."""
    return json.loads(json.dumps(document))


def test_documents_decode_to_what_was_encoded() -> None:
    decoded = decode_head(over(encode_head(HEAD)))
    assert decoded == HEAD
    assert decoded.facts.checksums_known
    for name in (ObjectName("b", "k/ü\n"), ObjectName("b", "\udcff")):
        assert decode_name(over(encode_name(name))) == name
    assert decode_span(over(encode_span(Span(3, 9)))) == Span(3, 9)
    refused = ErrorResponse(404, (("x", "y"),), b"\0<Error/>")
    assert decode_error_response(over(encode_error_response(refused))) == refused
    for failure in (
        OriginUnreachable("a"), OriginBroken("b"), OriginUnfit("c"), VersionChanged("d"), Throttled("e"),
    ):  # fmt: skip
        received = decode_failure(over(encode_failure(failure)))
        assert type(received) is type(failure)
        assert str(received) == str(failure)
    received = decode_failure(over(encode_failure(OriginRefused(403, (("a", "b"),), b"no"))))
    assert isinstance(received, OriginRefused)
    assert (received.status, received.headers, received.body) == (403, (("a", "b"),), b"no")
    received = decode_failure(over(encode_failure(OriginCredentialFault("key AK", "No valid credential."))))
    assert isinstance(received, OriginCredentialFault)
    assert (received.reason, received.message) == ("key AK", "No valid credential.")
    received = decode_failure(over(encode_failure(OrderRefused("no_such_plan", "There is no plan."))))
    assert isinstance(received, OrderRefused)
    assert (received.code, str(received)) == ("no_such_plan", "There is no plan.")
    assert decode_failure({"head": 1}) is None


DAMAGED: list[Callable[[Document], object]] = [
    lambda head: head.pop("size"),
    lambda head: head.update(size=-1),
    lambda head: head.update(size="1"),
    lambda head: head.update(size=True),
    lambda head: head.update(block=0),
    lambda head: head.update(generation="no hex"),
    lambda head: head.update(headers=[["one"]]),
    lambda head: head.update(headers=[[1, 2]]),
    lambda head: head.update(etag=None),
    lambda head: head.update(validated="soon"),
]


@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_head_raises_peer_unavailable(damage: Callable[[Document], object]) -> None:
    document = over(encode_head(HEAD))
    damage(document)
    with pytest.raises(PeerUnavailable):
        decode(lambda: decode_head(document))
