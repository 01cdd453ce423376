"""Requests that Forebay answers otherwise than the origin alone, on purpose: in which script of which origin, at which
places (none: all of it), and why."""

from collections.abc import Iterator
from typing import Final

_STRICT: Final = "S3's own answer, which the origin does not give"
_LENGTH: Final = "no length that two servers are certain to read alike: refused"
_NO_OPERATION: Final = "S3 has no such operation: refused, as the origin obeys another one"
_SPACED: Final = "no range, by its syntax: the whole object"
_EMPTY: Final = "no range lies in an empty object: 416"
_CONDITIONS: Final = (
    "as RFC 9110 and Amazon's documentation have it; an empty condition is none, a digest's case means nothing"
)
_TYPE: Final = "a document that the origin gives no type is told as application/octet-stream"

_WHERE: Final[tuple[tuple[str, tuple[int, ...], str], ...]] = (
    ("swift headers.content_length", (0, 1, 2, 4, 5), _LENGTH),
    ("swift headers.signatures", (2, 3, 4, 5), _STRICT),
    ("swift headers.methods", (4,), "a request that is no HTTP has no id; the answer is the same otherwise"),
    ("swift headers.methods", (6,), _STRICT),
    ("swift objects.ranges", (16, 17, 24, 25), _EMPTY),
    ("swift objects.ranges", (62, 63, 64, 65, 101), _SPACED),
    ("swift objects.conditions", (7, 10, 12, 18, 22, 43, 46, 48, 54, 58, 73, 75, 90, 96, 97), _CONDITIONS),
    ("swift objects.names", (154,), _STRICT),
    ("swift objects.batch_deletes", (24,), _STRICT),
    ("swift objects.batch_deletes", (27,), "an unknown parameter beside a list of keys is refused"),
    ("swift listings.all_buckets", (5,), "an unknown parameter of the service is refused"),
    ("swift listings.configurations", (17, 21, 72, 74), _TYPE),
    ("swift listings.configurations", (36, 48, 52, 66, 67, 68, 76, 85), _NO_OPERATION),
    ("swift links.presigned", (20,), _STRICT),
    ("swift links.nobody", (), "nobody may do anything: 403 AccessDenied, as at S3"),
    ("swift links.forms", (), "Forebay takes forms, the origin does not"),
    ("swift links.preflights", (1, 3, 4), "nobody may do anything: 403 AccessDenied, as at S3"),
    ("swift versions.life", (2, 4), _TYPE),
    ("swift versions.tags", (1, 6, 10, 12, 15), _TYPE),
    ("moto listings.all_buckets", (5,), "an unknown parameter of the service is refused"),
    ("moto uploads.checksummed", (6,), _STRICT),
    (
        "moto uploads.checksummed",
        (9,),
        "moto's GET tells another checksum than its HEAD; Forebay has the one of the HEAD",
    ),
    ("moto listings.configurations", (4, 24, 32, 36, 48, 52, 56, 66, 67, 68, 76, 78, 85), _NO_OPERATION),
)


def _known() -> Iterator[tuple[str, str]]:
    for script, places, why in _WHERE:
        for number in places:
            yield f"{script} {number} ", why
        if not places:
            yield f"{script} ", why


KNOWN: Final = dict(_known())
