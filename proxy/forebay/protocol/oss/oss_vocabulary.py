"""What the two ways of translating share: the words that S3 and OSS have for the same thing, and OSS's own names that
S3 has none for. Neither how clients of OSS are answered (forebay.protocol.oss.oss_headers) nor how an origin that is
OSS is
asked (forebay.protocol.oss.origin.oss_origin_headers), which each make more of them.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error

CRC64: Final = "x-oss-hash-crc64ecma"
OBJECT_TYPE: Final = "x-oss-object-type"
DEFAULT_ACL: Final = "DefaultAcl"
"""An element that an OSS origin's answer has besides the grants, which S3 knows nothing of: the object's ACL is
`default`, the bucket's."""

CLASSES: Final = MappingProxyType(
    {"STANDARD": "Standard", "STANDARD_IA": "IA", "GLACIER": "Archive", "DEEP_ARCHIVE": "ColdArchive"}
)
"""The storage classes that both have: S3's names to OSS's."""
CLASSES_BACK: Final = MappingProxyType({oss: s3 for s3, oss in CLASSES.items()})
COLDEST: Final = "DeepColdArchive"
"""OSS has two classes below Glacier, S3 one. To and from an origin that is OSS it goes under OSS's name."""

ENCRYPTION: Final = MappingProxyType({"AES256": "AES256", "aws:kms": "KMS"})
"""S3's names to OSS's."""
ENCRYPTION_BACK: Final = MappingProxyType({oss: s3 for s3, oss in ENCRYPTION.items()})


def lookup_value(names: Mapping[str, str], header: str, value: str, side: str) -> str:
    """What `names` says for the value of a header. Raises S3Error NotImplemented: `side` (S3, OSS) has none like it."""
    found = names.get(value)
    if found is None:
        raise S3Error("NotImplemented", f"{side} has nothing like {header}: {value}.")
    return found
