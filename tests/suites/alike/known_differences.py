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
_NOBODY: Final = "nobody may do anything: 403 AccessDenied, as at S3"
_PREFLIGHT: Final = "nobody signs a preflight: answered as S3 does for a bucket that lets no other site ask"
_SERVICE: Final = "an unknown parameter of the service is refused"
_PLUS: Final = "a plus in the source of a copy is a blank, as at S3"
_FORMS: Final = "Forebay takes forms, the origin does not, or not as S3 does"
_ID: Final = "an error that Forebay tells itself has one id, in head and body"

_WHERE: Final[tuple[tuple[str, tuple[int, ...], str], ...]] = (
    ("swift headers.content_length", (0, 1, 2, 4, 5), _LENGTH),
    ("swift headers.signatures", (2, 3, 4, 5, 11, 12, 27, 28, 31, 32, 37), _STRICT),
    ("swift headers.signatures", (38, 39), _NOBODY),
    ("swift headers.methods", (6,), _STRICT),
    ("swift framing.chunks", (11,), "Swift fails at a checksum without a length; Forebay tells it the length"),
    ("swift framing.bad_chunks", (1, 5), _STRICT),
    ("swift objects.ranges", (16, 17, 24, 25), _EMPTY),
    ("swift objects.ranges", (62, 63, 64, 65, 101), _SPACED),
    ("swift objects.conditions", (7, 10, 12, 18, 22, 43, 46, 48, 54, 58, 73, 75, 90, 96, 97), _CONDITIONS),
    ("swift objects.names", (154,), _STRICT),
    ("swift objects.batch_deletes", (24,), _STRICT),
    ("swift objects.batch_deletes", (27,), "an unknown parameter beside a list of keys is refused"),
    ("swift listings.all_buckets", (5,), _SERVICE),
    ("swift listings.configurations", (36, 48, 52, 66, 67, 68, 76, 85), _NO_OPERATION),
    ("swift bucket_configurations.the_rest", (62, 63), _NO_OPERATION),
    ("swift bucket_configurations.the_rest", (77,), _SERVICE),
    ("swift copies.sizes", (5,), _EMPTY),
    ("swift version_history.about_one_version", (31,), "a 304 names the version that was requested, as a 200 does"),
    ("swift copies.names", (31, 33), _PLUS),
    ("swift presigned_urls.presigned", (20,), _STRICT),
    ("swift presigned_urls.nobody", (), _NOBODY),
    ("swift presigned_urls.forms", (), _FORMS),
    ("swift presigned_urls.preflights", (1, 3, 4, 5, 6), _PREFLIGHT),
    ("moto listings.all_buckets", (5,), _SERVICE),
    ("moto uploads.checksummed", (6,), _STRICT),
    (
        "moto uploads.checksummed",
        (9,),
        "moto's GET tells another checksum than its HEAD; Forebay has the one of the HEAD",
    ),
    ("moto listings.configurations", (4, 24, 32, 36, 48, 52, 56, 66, 67, 68, 76, 78, 85), _NO_OPERATION),
    ("moto multipart_assembly.sizes", (6, 15), _ID),
    ("moto multipart_assembly.sums", (1, 2, 9, 11, 14, 15, 22, 24, 27, 28, 35, 37, 40, 41, 48, 50), _STRICT),
    ("moto bucket_configurations.the_rest", (6, 7, 20, 21, 52, 53, 62, 63, 72, 73), _NO_OPERATION),
    ("moto bucket_configurations.the_rest", (77,), _SERVICE),
    ("moto copies.sizes", (5,), _EMPTY),
    ("moto copies.names", (31, 33), _PLUS),
    ("moto version_history.about_one_version", (31,), _CONDITIONS),
    ("moto version_history.about_one_version", (32,), _ID),
    ("moto form_uploads.forms", (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 19), _FORMS),
    ("moto form_uploads.answers", (0, 2, 4, 6, 11, 13), _FORMS),
)


def _known() -> Iterator[tuple[str, str]]:
    for script, places, why in _WHERE:
        for number in places:
            yield f"{script} {number} ", why
        if not places:
            yield f"{script} ", why


KNOWN: Final = dict(_known())
