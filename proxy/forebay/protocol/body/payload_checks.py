"""The checks of one body: compares the hashes that the head of the request declared with those of the bytes, at their
end.

    update ... update, verify -> the verified checksums

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import ChecksumCheck

_MD5: Final = "content-md5"


class PayloadChecks:
    """Compares a body with its declared hashes."""

    def __init__(self, checks: Sequence[ChecksumCheck], declared_sha256: str | None = None) -> None:
        """`declared_sha256`: the value of x-amz-content-sha256, which may be no hash, so that no body matches it; None
        for a form of body that has none."""
        self._checks = checks
        self._declared_sha256 = declared_sha256
        self._sha256 = sha256() if declared_sha256 is not None else None

    @property
    def is_slow(self) -> bool:
        """Whether a byte takes more than its CRC does, which is next to nothing."""
        return self._sha256 is not None or any(check.is_slow for check in self._checks)

    @property
    def declared_md5(self) -> bytes | None:
        """The MD5 that `verify` compares; None: none was declared."""
        return next((check.expected for check in self._checks if check.header == _MD5), None)

    def update(self, pieces: Sequence[Piece]) -> None:
        """Adds the next bytes."""
        for piece in pieces:
            if self._sha256 is not None:
                self._sha256.update(piece)
            for check in self._checks:
                check.update(piece)

    def verify(self, trailers: Mapping[str, str]) -> dict[str, str]:
        """Returns every verified checksum by its lower-case header. Raises S3Error XAmzContentSHA256Mismatch,
        BadDigest, InvalidRequest."""
        if self._sha256 is not None and self._declared_sha256 is not None:
            computed = self._sha256.hexdigest()
            if computed != self._declared_sha256.lower():
                raise S3Error(
                    "XAmzContentSHA256Mismatch",
                    ClientComputedContentSHA256=self._declared_sha256,
                    S3ComputedContentSHA256=computed,
                )
        return {check.header: check.finish(trailers) for check in self._checks}
