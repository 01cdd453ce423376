"""Where an origin that is not AWS answers otherwise than AWS documents: named facts, not skipped tests.

The conformance suite (tests/origin/conformance) asserts each quirk's behaviour for the origins that have it and
AWS's for those that don't, so a quirk that has been mended is seen as well. The fake has none: it follows the
documents.
"""

from collections.abc import Mapping
from enum import Enum, unique
from typing import Final


@unique
class Quirk(Enum):
    """What it does, where AWS does what the second sentence says."""

    SERVES_SEVERAL_RANGES = "Several ranges give 206 multipart/byteranges. AWS ignores them: 200, the whole object."
    SUFFIX_OF_AN_EMPTY_OBJECT = "bytes=-1 of an empty object gives 200, as RFC 9110 has it. AWS: 416."
    IGNORES_IF_RANGE = "If-Range is ignored, the range served. RFC 9110: 200 and the whole object when it doesn't hold."
    CONDITIONS_ONE_BY_ONE = (
        "Conditions are judged one by one, If-None-Match first, then If-Match, If-Modified-Since, If-Unmodified-Since. "
        "AWS: If-Match overrules If-Unmodified-Since and goes first, If-None-Match overrules If-Modified-Since."
    )
    TRAILERS_END_IN_CRLF_ONLY = (
        "A signed trailer that ends in LF CRLF, as AWS's documents draw it, is refused with 400."
    )
    NO_PUT_IF_MATCH = "PutObject with If-Match gives 501. AWS compares and writes."
    RETURNS_NO_CHECKSUMS = "x-amz-checksum-mode is ignored. AWS returns the checksum that came with the upload."
    HIDES_DELETE_MARKERS = (
        "A delete marker gives a plain 404, also when asked for by its version id. "
        "AWS: 404 with x-amz-delete-marker, and 405 when asked for by its id."
    )
    NO_TAGS = "Tagging gives 501. AWS has tags."
    UNKNOWN_KEY_IS_A_WRONG_SIGNATURE = "An unknown access key gives SignatureDoesNotMatch. AWS: InvalidAccessKeyId."
    TAKES_ANY_REGION = "A signature for another region is as good. AWS: 400 AuthorizationHeaderMalformed."
    UPPER_CASE_ETAGS = "ETags are in upper case. AWS: lower case."
    NO_DELETE_IF_MATCH = "DeleteObject with If-Match gives 501. AWS compares and deletes."
    NO_READS_BY_PART = "partNumber in a read gives 501. AWS answers with the part."
    LOCATION_IS_TOLD = "A bucket's location is its region. AWS: empty, for us-east-1."
    NO_LEADING_SLASH = "A key must not begin with a slash, and has at most 1,023 bytes. AWS: any key of 1,024 bytes."
    ANONYMOUS_IS_A_BAD_REQUEST = "A request without a signature gives 400 or 412. AWS: 403 AccessDenied."


_OF_OSS: Final = frozenset(
    {
        Quirk.NO_DELETE_IF_MATCH,
        Quirk.NO_LEADING_SLASH,
        Quirk.NO_READS_BY_PART,
        Quirk.LOCATION_IS_TOLD,
        Quirk.UPPER_CASE_ETAGS,
    }
)

QUIRKS: Final[Mapping[str, frozenset[Quirk]]] = {
    "fake": frozenset(),
    "swift": frozenset(Quirk) - {Quirk.TAKES_ANY_REGION} - _OF_OSS,
    # Forebay judges signatures, conditions and ranges itself; what it passes on is as odd as the origin.
    "forebay over fake": frozenset({Quirk.TAKES_ANY_REGION}),
    "forebay over oss": _OF_OSS | {Quirk.NO_PUT_IF_MATCH, Quirk.RETURNS_NO_CHECKSUMS, Quirk.TAKES_ANY_REGION},
    "forebay over swift": frozenset(
        {
            Quirk.HIDES_DELETE_MARKERS,
            Quirk.NO_PUT_IF_MATCH,
            Quirk.NO_TAGS,
            Quirk.RETURNS_NO_CHECKSUMS,
            Quirk.SERVES_SEVERAL_RANGES,
            Quirk.TAKES_ANY_REGION,
        }
    ),
}
