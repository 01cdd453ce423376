"""What a write makes of its objects, by its request alone."""

from hashlib import md5
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.core.names import ObjectName
from forebay.protocol.target import parse_target
from forebay.protocol.xml.s3_documents import ListedKey, UploadedPart
from forebay.write.conditional_writes import ABSENT
from forebay.write.forward_request import ForwardRequest
from forebay.write.sent_versions import SentVersions, versions_made

NAME = ObjectName("b", "k")
DIGESTS = [md5(each, usedforsecurity=False) for each in (b"1", b"2")]
JOINED = md5(b"".join(each.digest() for each in DIGESTS), usedforsecurity=False).hexdigest()


def forward_of(operation: str, target: str = "/b/k") -> ForwardRequest:
    return ForwardRequest(
        cast("Any", None),
        parse_target(target, "localhost", ()),
        cast("Any", SimpleNamespace(name=operation)),
        None,
    )


@pytest.mark.parametrize(
    ("operation", "target", "expected"),
    [
        ("PutObject", "/b/k", [(NAME, '"body"')]),
        ("DeleteObject", "/b/k", [(NAME, ABSENT)]),
        ("DeleteObject", "/b/k?versionId=1", []),
        ("CompleteMultipartUpload", "/b/k?uploadId=1", [(NAME, f'"{JOINED}-2"')]),
        ("DeleteObjects", "/b?delete", [(ObjectName("b", "x"), ABSENT)]),
        ("CopyObject", "/b/k", [(NAME, '"body"')]),
        ("UploadPart", "/b/k?uploadId=1&partNumber=1", []),
        ("PutObjectTagging", "/b/k?tagging", []),
    ],
)
def test_versions(operation: str, target: str, expected: list[tuple[ObjectName, str]]) -> None:
    parts = [UploadedPart(number, f'"{each.hexdigest()}"') for number, each in enumerate(DIGESTS, 1)]
    listed = [ListedKey("x", None), ListedKey("y", "1")]
    assert versions_made(forward_of(operation, target), '"body"', parts, listed) == expected


def test_what_is_not_known_is_not_said() -> None:
    completion = forward_of("CompleteMultipartUpload")
    assert versions_made(forward_of("PutObject"), "", (), ()) == []
    assert versions_made(completion, "", (), ()) == []
    assert versions_made(completion, "", [UploadedPart(1, "opaque"), UploadedPart(2, JOINED)], ()) == []


def test_an_outcome_is_told_of_what_was_sent() -> None:
    told: list[tuple[str, object]] = []
    names = ("note_sent", "note_lost", "note_settled")
    write_back = SimpleNamespace(**{name: lambda versions, name=name: told.append((name, versions)) for name in names})
    sent = SentVersions(cast("Any", write_back))
    for outcome in (sent.lose, sent.settle):  # of a request that was never complete
        outcome()
    assert told == []
    sent.begin([(NAME, ABSENT)])
    for outcome in (sent.lose, sent.settle):
        outcome()
    assert told == [(name, [(NAME, ABSENT)]) for name in names]


def test_nothing_is_noted_where_no_write_is_accepted_early() -> None:
    """Nor of a write that makes no version."""
    told: list[object] = []
    names = ("note_sent", "note_lost", "note_settled")
    empty = SentVersions(cast("Any", SimpleNamespace(**dict.fromkeys(names, told.append))))
    for sent, versions in ((SentVersions(None), [(NAME, ABSENT)]), (empty, [])):
        sent.begin(versions)
        for outcome in (sent.lose, sent.settle):
            outcome()
    assert told == []
