"""The headers of a request to the origin: the caller's, the fixed ones, and the signature over them, if it is signed.

S3's origins get SigV4, an OSS origin OSS's version 4. Host, and what frames a body, are the transport's.

Reads of many objects differ in their paths alone. For SigV4, all else of their heads is made once a second (`head`).

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from collections.abc import Callable, Hashable, Mapping
from email.utils import formatdate
from typing import Final, NamedTuple

from aiohttp import hdrs
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.origin.credentials import Credentials
from forebay.origin.endpoint import RequestUrl
from forebay.origin.http.outgoing_head import encoded_head, header_lines, outgoing_head
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.signatures.oss_signing import sign_oss_request
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import SigningTemplate, sign_request

# Set here, or by the transport. From a caller they would be sent twice, or contradict the request.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
    }
)
_SIGNED: Final = frozenset({"content-type", "content-md5", "range"})
_MAX_TEMPLATES: Final = 64
"""Heads with other headers, other hosts or other credentials, in one second, that are kept for the next path."""


class _HeadTemplate(NamedTuple):
    """The head of a request but for its path."""

    lines: str
    """All header fields but `authorization`."""
    signing: SigningTemplate

    def head(self, method: str, url: RequestUrl) -> bytes:
        """Raises ValueError for a target that can't be sent."""
        authorization = self.signing.authorization(url.raw_path)  # canonical, as encode_path has made it
        return encoded_head(f"{method} {url.target} HTTP/1.1\r\n", f"{self.lines}authorization: {authorization}\r\n")


class RequestSigner:
    """Signs with the request's own credential, else with the origin's."""

    def __init__(
        self, credentials: Credentials, region: str, clock: Callable[[], float], user_agent: str, *, speaks_oss: bool
    ) -> None:
        """`clock`: seconds since the epoch. `speaks_oss`: whether the origin is OSS behind its own protocol."""
        self.credentials = credentials
        self._region = region
        self._clock = clock
        self.speaks_oss = speaks_oss
        self._second = 0
        self._templates: dict[Hashable, _HeadTemplate] = {}
        """The templates of the second `_second`."""
        self._latest: tuple[OriginRequest, str, SecretKey, _HeadTemplate] | None = None
        """The last template that was used for reads of any object, which all pass the same OriginRequest. Before it:
        the request, the host and the key that it was made for."""
        self._fixed = ((hdrs.USER_AGENT, user_agent), (hdrs.ACCEPT, "*/*"), (hdrs.ACCEPT_ENCODING, "identity"))

    async def head(self, request: OriginRequest, url: RequestUrl, region: str | None = None) -> bytes:
        """Returns the head of a request without a body. `region`: as in `headers`. Raises OriginCredentialFault,
        S3Error, and ValueError for a header that can't be sent."""
        secret = await self.credentials.current() if request.credential is None else request.credential
        if self.speaks_oss or not isinstance(secret, SecretKey):
            return outgoing_head(request.method, url, await self.headers(request, url, region))
        return self.signed_head(request, url, secret, region)

    def signed_head(
        self, request: OriginRequest, url: RequestUrl, secret: SecretKey, region: str | None = None
    ) -> bytes:
        """`head` for an origin that speaks S3, signed with this key."""
        now = self._clock()
        if int(now) != self._second:
            self._second = int(now)
            self._templates.clear()
            self._latest = None
        elif self._latest is not None:  # by identity: hashing all that is signed costs as much as the signature
            latest, host, its_secret, found = self._latest
            if latest is request and its_secret is secret and host == url.host and region is None:
                return found.head(request.method, url)
        key = (request.method, url.host, request.query, request.headers, request.payload_hash, secret, region)
        template = self._templates.get(key)
        if template is None:
            template = self._template(request, url, secret, region or self._region, now)
            if len(self._templates) < _MAX_TEMPLATES:
                self._templates[key] = template
        if region is None and request.key is None:
            self._latest = request, url.host, secret, template
        return template.head(request.method, url)

    def _template(
        self, request: OriginRequest, url: RequestUrl, secret: SecretKey, region: str, now: float
    ) -> _HeadTemplate:
        sent = _caller_headers(request.headers)
        signing = SigningTemplate(
            request.method, url.host, request.query, _signed_headers(sent), request.payload_hash, secret, region, now
        )
        return _HeadTemplate(
            header_lines(request.method, url.host, (*self._fixed, *sent, *signing.added.items())), signing
        )

    async def headers(
        self, request: OriginRequest, url: RequestUrl, region: str | None = None
    ) -> list[tuple[str, str]]:
        """Returns all headers but Host and those of the body's framing. `region`: of the bucket, if it is another than
        the origin's. Raises OriginCredentialFault, S3Error."""
        sent = _caller_headers(request.headers)
        secret = await self.credentials.current() if request.credential is None else request.credential
        if isinstance(secret, SecretKey):
            added = self._signature(request, url, sent, secret, region or self._region)
        else:
            # Says how the body is framed, also where nothing is signed.
            framed = request.payload_hash.startswith("STREAMING-")
            added = {"x-amz-content-sha256": request.payload_hash} if framed else {}
        if self.speaks_oss:
            merged = CIMultiDict(sent)
            merged.update(added)
            merged[hdrs.DATE] = formatdate(self._clock(), usegmt=True)  # as OSS documents it
            return [*self._fixed, *merged.items()]
        return [*self._fixed, *sent, *added.items()]

    def _signature(
        self, request: OriginRequest, url: RequestUrl, sent: list[tuple[str, str]], secret: SecretKey, region: str
    ) -> dict[str, str]:
        method, query, now = request.method, request.query, self._clock()
        if self.speaks_oss:
            lower = {name.lower(): value for name, value in sent}
            return sign_oss_request(method, url.host, request.bucket, request.key, query, lower, secret, region, now)
        covered = _signed_headers(sent)
        return sign_request(method, url.host, url.raw_path, query, covered, request.payload_hash, secret, region, now)


def _caller_headers(headers: HeaderPairs) -> list[tuple[str, str]]:
    """The headers of a request that its caller may set. Raises S3Error for one that can't be sent.

    aiohttp silently leaves out a byte that is not UTF-8, and the signature would cover something else.
    """
    for _, value in headers:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise S3Error("InvalidRequest", "A header of the request is not UTF-8.") from None
    return [pair for pair in headers if pair[0].lower() not in _OURS]


def _signed_headers(headers: list[tuple[str, str]]) -> Mapping[str, str]:
    """The headers that SigV4 covers, names in lower case, repeated ones joined with a comma. Host and what signing
    adds are covered besides."""
    signed: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(("x-amz-", "if-")) or lower in _SIGNED:
            signed[lower] = f"{signed[lower]},{value}" if lower in signed else value
    return signed
