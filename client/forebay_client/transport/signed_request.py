"""Signs requests of the client library, for S3 (Signature Version 4) and for OSS (its version 4).

    ObjectRequest  ──>  SignedRequest(method, authority, target, headers)      ready for any transport

The target is sent as it is signed. Bodies: over TLS they are not hashed; without TLS, S3's are signed with their
SHA-256. Objects come with a CRC-32 (S3) that the server verifies. OSS sends its CRC-64 back, see body_checks.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import time
from dataclasses import dataclass, field
from typing import Final

from forebay.core.names import is_reserved
from forebay.protocol.signatures.canonical_request import canonical_query, encode_path
from forebay.protocol.signatures.oss_canonical_request import canonical_query as oss_query
from forebay.protocol.signatures.oss_signing import presigned_oss_query, sign_oss_request
from forebay.protocol.signatures.sigv4_signing import presigned_query, sign_request
from forebay_client.client_credentials import CredentialSource
from forebay_client.client_settings import AddressingStyle, ClientDialect, ClientSettings, ServerUrl
from forebay_client.transport.object_request import ObjectRequest
from forebay_client.transport.upload_content import crc32_header, length_of, sha256_hex

_UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
_EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_WITH_BODY: Final = frozenset({"PUT", "POST"})


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request as it is sent: nothing is added or changed afterwards."""

    method: str
    host: str
    """The host to connect to; with the bucket in front of it where buckets are in the host name."""
    target: str
    """Path and query, encoded."""
    headers: dict[str, str] = field(repr=False)
    """Host, length and signature included, names in lower case."""


class ObjectRequestSigner:
    """Signs the requests of one client. Used by many threads at once."""

    def __init__(self, settings: ClientSettings) -> None:
        self._server: ServerUrl = settings.server
        self._region = settings.region
        self._credentials: CredentialSource = settings.credentials
        self._dialect: ClientDialect = settings.dialect
        self._addressing: AddressingStyle = settings.addressing
        self._wants_checksums = settings.wants_checksums and settings.dialect == "s3"

    def sign(self, request: ObjectRequest) -> SignedRequest:
        """The request for the wire. Raises ClientConfigurationError where credentials can't be had."""
        authority, path = self._location(request)
        headers = self._headers(request)
        secret = self._credentials.current()
        if self._dialect == "oss":
            query = oss_query(request.query)
            added = (
                sign_oss_request(
                    request.method,
                    authority,
                    request.bucket,
                    request.key,
                    request.query,
                    headers,
                    secret,
                    self._region,
                    time.time(),
                )
                if secret is not None
                else {}
            )
        else:
            query = canonical_query(request.query)
            payload = self._payload(request)
            if secret is not None:
                added = sign_request(
                    request.method,
                    authority,
                    path,
                    request.query,
                    headers,
                    payload,
                    secret,
                    self._region,
                    time.time(),
                )
            else:
                added = {"x-amz-content-sha256": payload} if request.method in _WITH_BODY else {}
        target = f"{path}?{query}" if query else path
        return SignedRequest(request.method, self._host(request), target, {"host": authority, **headers, **added})

    def presign(self, method: str, bucket: str, key: str, expires: int) -> str:
        """A URL by which anybody may send this request for `expires` seconds. Raises ClientConfigurationError where
        credentials can't be had."""
        request = ObjectRequest(method, bucket, key)
        authority, path = self._location(request)
        secret = self._credentials.current()
        url = f"{self._server.scheme}://{authority}{path}"
        if secret is None:
            return url
        if self._dialect == "oss":
            query = presigned_oss_query(method, authority, bucket, key, secret, self._region, time.time(), expires)
        else:
            query = presigned_query(method, authority, path, (), secret, self._region, time.time(), expires)
        return f"{url}?{query}"

    def _host(self, request: ObjectRequest) -> str:
        return f"{request.bucket}.{self._server.host}" if self._addressing == "virtual" else self._server.host

    def _location(self, request: ObjectRequest) -> tuple[str, str]:
        """The Host header, and the path."""
        key = encode_path(request.key) if request.key is not None else ""
        if self._addressing == "virtual":
            return f"{request.bucket}.{self._server.authority}", f"/{key}"
        bucket = encode_path(request.bucket)
        # A bucket alone has no slash behind it: that is how SDKs write it, and Swift knows no other.
        return self._server.authority, f"/{bucket}/{key}" if key else f"/{bucket}"

    def _headers(self, request: ObjectRequest) -> dict[str, str]:
        headers = dict(request.headers)
        if request.span is not None:
            start, end = request.span
            headers["range"] = f"bytes={start}-{'' if end is None else end - 1}"
            if self._dialect == "oss":
                headers["x-oss-range-behavior"] = "standard"
        elif self._wants_checksums and request.method == "GET" and request.key is not None:
            headers["x-amz-checksum-mode"] = "ENABLED"
        if request.method in _WITH_BODY:
            headers["content-length"] = str(length_of(request.content))
            # With a plan, a checksum tells Forebay that its reads will ask for theirs.
            is_checked = self._wants_checksums or not is_reserved(request.key or "")
            if self._dialect == "s3" and request.method == "PUT" and is_checked:
                headers["x-amz-checksum-crc32"] = crc32_header(request.content)
        if self._dialect == "oss":
            return {
                f"x-oss-{name.removeprefix('x-amz-')}" if name.startswith("x-amz-") else name: value
                for name, value in headers.items()
            }
        return headers

    def _payload(self, request: ObjectRequest) -> str:
        if not length_of(request.content):
            return _EMPTY_SHA256
        return _UNSIGNED_PAYLOAD if self._server.scheme == "https" else sha256_hex(request.content)
