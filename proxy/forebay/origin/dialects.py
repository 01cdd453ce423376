"""The differences between origins, as named rows. Code asks a row for its fields, never for its name.

Each value was tried against the origin or read in its documentation; where neither was possible it is the conservative
one. An origin is listed once it works.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of origin."""

    name: str
    addressing: Literal["path", "virtual", "host"]
    """The bucket's position: in the path; in the host name where the endpoint and the bucket's name allow it; in the
    host name and nowhere else."""
    unsigned_payload_over_http: bool
    """Whether `x-amz-content-sha256: UNSIGNED-PAYLOAD` is accepted for an upload without TLS."""
    has_unsigned_trailer: bool
    """Whether a checksum may follow a body in unsigned aws-chunks."""
    extensions: frozenset[str] = frozenset()
    """The dialect's own request headers beside S3's, in lower case, that change only the object that is written. The
    rules of their signing: forebay.protocol.forwarded_headers."""
    reserved_names: frozenset[str] = frozenset()
    """Names that are no buckets: their paths are the origin's own interfaces (administration, other protocols), which
    must not be reached with our signature."""
    has_regions: bool = False
    """Whether its buckets are in several regions, and it says which one where a request is signed for another."""
    smallest_part: int = 5 << 20
    """Bytes of a part of an upload, but the last, that it accepts."""
    speaks_oss: bool = False
    """Whether it is OSS in its own protocol. Callers speak S3 to it all the same (forebay.origin.oss_adapter); it
    accepts OSS's small parts, and its ETags are in upper case."""

    def etag(self, digest: str) -> str:
        """The ETag that it makes of a digest in lower case."""
        return f'"{digest.upper() if self.speaks_oss else digest}"'


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            # The unsigned trailer form is for TLS only, and so is an unsigned body:
            # https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
            Dialect("aws", "virtual", unsigned_payload_over_http=False, has_unsigned_trailer=True, has_regions=True),
            # Its administration, health and metrics are under /minio.
            Dialect(
                "minio",
                "path",
                unsigned_payload_over_http=True,
                has_unsigned_trailer=True,
                reserved_names=frozenset({"minio", ".minio.sys"}),
            ),
            # https://docs.ceph.com/en/latest/radosgw/config-ref/ (rgw_admin_entry, rgw_swift_url_prefix), and its
            # Swift login.
            Dialect(
                "ceph",
                "path",
                unsigned_payload_over_http=True,
                has_unsigned_trailer=False,
                reserved_names=frozenset({"admin", "auth", "swift"}),
            ),
            # https://docs.openstack.org/swift/latest/overview_expiring_objects.html
            Dialect(
                "swift",
                "path",
                unsigned_payload_over_http=True,
                has_unsigned_trailer=True,
                extensions=frozenset({"x-delete-after", "x-delete-at", "x-robots-tag"}),
            ),
            # Alibaba OSS in its own protocol, whose payloads are never hashed, nor framed in aws-chunks.
            # https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
            Dialect(
                "oss",
                "host",
                unsigned_payload_over_http=True,
                has_unsigned_trailer=False,
                smallest_part=100 << 10,
                speaks_oss=True,
            ),
        )
    }
)
