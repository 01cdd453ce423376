"""How origins differ, as named rows. Code asks a row for its fields and never for its name.

What an origin does was tried against it or read in its documentation; where that was not possible the row holds the
careful value. An origin is listed when it works.
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
    """Where the bucket stands: in the path; in the host name where the endpoint and the bucket's name allow it; in the
    host name and nowhere else."""
    unsigned_payload_over_http: bool
    """Whether `x-amz-content-sha256: UNSIGNED-PAYLOAD` is taken for an upload without TLS."""
    has_unsigned_trailer: bool
    """Whether a checksum may follow a body in unsigned aws-chunks."""
    extensions: frozenset[str] = frozenset()
    """Request headers that it has beside S3's, in lower case: judged to change only the object that is written. How far
    they must be signed: forebay.protocol.forwarded_headers."""
    reserved_names: frozenset[str] = frozenset()
    """Names that are no buckets: behind their path lie the origin's own interfaces (administration, other protocols),
    which must not be reached with our signature."""
    speaks_oss: bool = False
    """Whether it is OSS behind its own protocol. What is asked of it is in S3's terms all the same (see
    forebay.origin.oss_origin); it takes OSS's small parts, and tells ETags in its own case."""


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            # The unsigned trailer form is for TLS only, and so is an unsigned body:
            # https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
            Dialect("aws", "virtual", unsigned_payload_over_http=False, has_unsigned_trailer=True),
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
                speaks_oss=True,
            ),
        )
    }
)
