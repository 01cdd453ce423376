"""Checksums of parts, as S3 demands them of an upload that was created with an algorithm.

    CreateMultipartUpload  x-amz-checksum-algorithm: SHA256        ──> each part has that checksum, or is refused
    UploadPartCopy                                                 ──> it is computed here: S3 would do so
    CompleteMultipartUpload  <Part><ChecksumSHA256>                ──> compared with the part's
      at the origin                                                ──> the completion lists the checksum of each part
    the object               x-amz-checksum-sha256: BASE64-N       ──> the checksum of the N parts' checksums
                             ETag: "HEX-N"                         ──> the MD5 of the N parts' MD5s

S3 does not complete such an upload if its parts are listed without checksums. SDKs create uploads with CRC32 by
default. Of an upload with the type FULL_OBJECT the checksums of parts are left to the client: if all have one, they
combine to that of the object (protocol.body.crc_combination), else that is left to the origin.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from typing import Final

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.body.checksum_headers import ALGORITHM, COMPOSITE, FULL, TYPE, checksums_in, element_name
from forebay.protocol.body.checksums import PREFIX, digest_in, encode, hasher, is_checksum
from forebay.protocol.body.crc_combination import combine_crcs, is_combinable
from forebay.protocol.xml.s3_documents import UploadedPart

_BATCH: Final = 16
"""CRCs that are combined in one go."""


def algorithm_of(upload: HeaderPairs) -> str | None:
    """Returns the algorithm of an upload by the headers of its creation, if Forebay can compute it."""
    found = next((value.strip().lower() for name, value in upload if name.lower() == ALGORITHM), "")
    return found if is_checksum(PREFIX + found, computable=True) else None


def multipart_etag(etags: Iterable[str]) -> str:
    """Returns the ETag, without quotes, of an object that is made of parts with these ETags, each an MD5."""
    digests = [bytes.fromhex(etag.strip('"')) for etag in etags]
    return f"{md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def object_algorithm(facts: HeaderPairs) -> str | None:
    """The algorithm of the checksum that an object has, which a copy of it has, too."""
    found = (name.removeprefix(PREFIX) for name, _ in _lower(facts) if is_checksum(name, computable=True))
    return next(found, None)


def check_part(upload: HeaderPairs, part: HeaderPairs) -> None:
    """Raises S3Error InvalidRequest for a part without the checksum that its upload was created for."""
    algorithm = algorithm_of(upload)
    if algorithm is None or _type_of(upload, algorithm) == FULL:
        return
    if PREFIX + algorithm not in dict(_lower(part)):
        raise S3Error("InvalidRequest", f"The upload was created for checksums of {algorithm}, and the part has none.")


def created_facts(upload: HeaderPairs) -> HeaderPairs:
    """Returns the headers in which S3 describes the checksums of an upload; none without an algorithm."""
    algorithm = algorithm_of(upload)
    return ((ALGORITHM, algorithm.upper()), (TYPE, _type_of(upload, algorithm))) if algorithm is not None else ()


def object_checksum(upload: HeaderPairs, parts: Sequence[tuple[HeaderPairs, int]]) -> CooperativeWork[HeaderPairs]:
    """The header with the checksum of an object that is made of parts with these headers and sizes; none where it does
    not follow from the parts' checksums."""
    algorithm = algorithm_of(upload)
    if algorithm is None:
        return ()
    name, digests = PREFIX + algorithm, []
    for headers, _ in parts:  # of which there may be ten thousand
        value = next((value for header, value in headers if header.lower() == name), None)
        if value is None:
            return ()
        digests.append(digest_in(value))
    if _type_of(upload, algorithm) != FULL:
        whole = hasher(algorithm)
        whole.update(b"".join(digests))
        return ((name, f"{encode(whole.digest())}-{len(parts)}"),)
    if not is_combinable(algorithm):
        return ()
    crc = hasher(algorithm).digest()
    for number, (digest, (_, size)) in enumerate(zip(digests, parts, strict=True), 1):
        crc = combine_crcs(algorithm, crc, digest, size)
        if number % _BATCH == 0:
            yield
    return ((name, encode(crc)),)


def completed_checksums(fields: Mapping[str, str]) -> HeaderPairs:
    """The checksums among the fields of a document that answers a completion, as headers."""
    names = ((name.removeprefix("Checksum").lower(), value) for name, value in fields.items() if name != "ChecksumType")
    return tuple((PREFIX + name, value) for name, value in names if is_checksum(PREFIX + name, computable=True))


def listed_checksums(upload: HeaderPairs, part: HeaderPairs) -> HeaderPairs:
    """The checksum of a part in the list of a completion at the origin, as an element; none without an algorithm."""
    algorithm = algorithm_of(upload)
    value = dict(_lower(part)).get(f"{PREFIX}{algorithm}")
    return () if algorithm is None or value is None else ((element_name(PREFIX + algorithm), value),)


def check_listed(part: HeaderPairs, listed: UploadedPart) -> None:
    """Raises S3Error InvalidPart where the list of a completion names another checksum than the part has."""
    known = {element_name(name): value for name, value in checksums_in(part)}
    if any(known.get(name, value) != value for name, value in listed.checksums):
        raise S3Error("InvalidPart", "A checksum is not the one of the part.", PartNumber=str(listed.number))


def _lower(headers: HeaderPairs) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


def _type_of(upload: HeaderPairs, algorithm: str) -> str:
    named = dict(_lower(upload)).get(TYPE, FULL if algorithm == "crc64nvme" else COMPOSITE)
    return named.strip().upper()
