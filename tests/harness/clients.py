"""Small S3 clients for tests.

    RawClient    asyncio, signs with botocore's signer, sends what it is told and returns what came, unbeautified
    boto_client  boto3 with path style addressing and no retries, for threads: `await
    asyncio.to_thread(client.get_object, ...)`

Neither is made for speed. For a slow reader, half a body or a malformed request, `RawClient.open` and
harness.raw_connection.
"""

import hashlib
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
from botocore.config import Config

from forebay_client import Client
from harness.aws_chunked import Framing
from harness.raw_connection import RawAnswer, RawConnection, head_bytes
from harness.reference_sigv4 import UNSIGNED, Secret, request_signature, timestamp_of

Pairs = Sequence[tuple[str, str]]
_ALGORITHM = "AWS4-HMAC-SHA256"
_CREATING = threading.Lock()


def path_of(bucket: str, key: str | None = None) -> str:
    """`/bucket/key` as SDKs encode it: everything but unreserved characters and the slash."""
    return f"/{bucket}" if key is None else f"/{bucket}/{quote(key, safe='/~')}"


def query_of(parameters: Mapping[str, str]) -> str:
    """A query string in SigV4's canonical form; what stands on the wire is then what is signed."""
    return "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(parameters.items()))


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A signed request, ready for the wire; tests may change it before they send it."""

    method: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    body: bytes = b""

    @property
    def wire(self) -> bytes:
        return head_bytes(self.method, self.target, self.pairs) + self.body


def chunked(request: RawRequest, size: int = 1000) -> RawRequest:
    """The same inside of Transfer-Encoding: chunked, as a client sends it that doesn't know the length beforehand."""
    pairs = tuple(pair for pair in request.pairs if pair[0] != "Content-Length")
    pieces = [request.body[at : at + size] for at in range(0, len(request.body), size)]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return RawRequest(request.method, request.target, (*pairs, ("Transfer-Encoding", "chunked")), body)


class RawClient:
    """`host`: the Host header if it isn't the endpoint's (virtual-hosted style). `clock`: the time of signing. `tls`:
    whom to trust, for an endpoint with TLS."""

    def __init__(
        self,
        endpoint: str,
        secret: Secret,
        *,
        host: str | None = None,
        clock: Callable[[], float] = time.time,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        assert (tls is not None) == (parts.scheme == "https"), endpoint
        self.address, self._tls = (parts.hostname, parts.port or 80), tls
        self.secret, self._host, self._clock = secret, host or parts.netloc, clock

    def sign(
        self,
        method: str,
        target: str,
        headers: Pairs = (),
        body: bytes = b"",
        *,
        payload: str | None = None,
        framing: Framing | None = None,
    ) -> RawRequest:
        """Signs by header. `payload` overrides x-amz-content-sha256; `framing` sends the body aws-chunked."""
        timestamp = timestamp_of(self._clock())
        digest = framing.kind if framing else hashlib.sha256(body).hexdigest()
        pairs = [("Host", self._host), ("x-amz-date", timestamp), ("x-amz-content-sha256", payload or digest)]
        pairs += [("x-amz-security-token", self.secret.token)] if self.secret.token else []
        pairs += [*headers, *(framing.headers(body) if framing else ())]
        signed = sorted({name.lower() for name, _ in pairs})
        path, _, query = target.partition("?")
        signature = request_signature(
            self.secret,
            timestamp,
            method=method,
            raw_path=path,
            raw_query=query,
            headers=pairs,
            signed=frozenset(signed),
        )
        sent = framing.frame(body, self.secret, timestamp, signature) if framing else body
        credential = f"{self.secret.access}/{timestamp[:8]}/{self.secret.region}/s3/aws4_request"
        value = f"{_ALGORITHM} Credential={credential}, SignedHeaders={';'.join(signed)}, Signature={signature}"
        pairs.append(("Authorization", value))
        if sent or method in {"PUT", "POST"}:
            pairs.append(("Content-Length", str(len(sent))))
        return RawRequest(method, target, tuple(pairs), sent)

    def presign(self, method: str, target: str, expires: int = 3600, headers: Pairs = ()) -> str:
        """The target with the signature in its query; `headers` must be sent with it."""
        timestamp = timestamp_of(self._clock())
        path, _, query = target.partition("?")
        pairs = [("Host", self._host), *headers]
        signed = sorted({name.lower() for name, _ in pairs})
        added = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self.secret.access}/{timestamp[:8]}/{self.secret.region}/s3/aws4_request",
            "X-Amz-Date": timestamp,
            "X-Amz-Expires": str(expires),
            "X-Amz-SignedHeaders": ";".join(signed),
        }
        if self.secret.token:
            added["X-Amz-Security-Token"] = self.secret.token
        full = "&".join(filter(None, (query, query_of(added))))
        # With the payload hash left out of the headers, the reference signs UNSIGNED-PAYLOAD, as a presigned URL must.
        signature = request_signature(
            self.secret,
            timestamp,
            method=method,
            raw_path=path,
            raw_query=full,
            headers=pairs,
            signed=frozenset(signed),
        )
        return f"{path}?{full}&X-Amz-Signature={signature}"

    async def open(self, receive_buffer: int | None = None) -> RawConnection:
        """A connection of one's own, for everything that `request` hides."""
        return await RawConnection.open(*self.address, receive_buffer=receive_buffer, tls=self._tls)

    async def send(self, request: RawRequest, connection: RawConnection | None = None) -> RawAnswer:
        """Sends a request as it is and reads the whole answer, on a connection of its own unless one is given."""
        if connection is None:
            async with await self.open() as own:
                return await self.send(request, own)
        try:
            await connection.send(request.wire)
        except ConnectionError:  # an answer may have come before the end
            return await connection.answer(request.method)
        return await connection.answer(request.method)

    async def request(
        self,
        method: str,
        target: str,
        headers: Pairs = (),
        body: bytes = b"",
        *,
        payload: str | None = None,
        framing: Framing | None = None,
        connection: RawConnection | None = None,
    ) -> RawAnswer:
        """Signs, sends, reads."""
        request = self.sign(method, target, headers, body, payload=payload, framing=framing)
        return await self.send(request, connection)

    async def unsigned(
        self,
        method: str,
        target: str,
        headers: Pairs = (),
        body: bytes = b"",
        *,
        connection: RawConnection | None = None,
    ) -> RawAnswer:
        """As it is, with Host and Content-Length and no signature: anonymous, or a presigned target."""
        length = [("Content-Length", str(len(body)))] if body or method in {"PUT", "POST"} else []
        pairs = (("Host", self._host), *headers, *length)
        return await self.send(RawRequest(method, target, pairs, body), connection)


UNSIGNED_PAYLOAD = UNSIGNED


def boto_client(endpoint: str, secret: Secret, **config: Any) -> Any:
    """boto3's S3 client as users have it, but path style and one attempt. `config` overrides botocore's Config."""
    settings: dict[str, Any] = {
        "s3": {"addressing_style": "path"},
        "retries": {"total_max_attempts": 1},
        "connect_timeout": 5,
        "read_timeout": 30,
        **config,
    }
    with _CREATING:  # a session is not for several threads; its clients are
        return _boto_session(secret).client("s3", endpoint_url=endpoint, config=Config(**settings))


@cache
def _boto_session(secret: Secret) -> Any:
    """One for all clients of a key: what botocore reads of S3 is nine tenths of what a client costs."""
    return boto3.session.Session(
        aws_access_key_id=secret.access,
        aws_secret_access_key=secret.secret,
        aws_session_token=secret.token,
        region_name=secret.region,
    )


def library_client(endpoint: str, secret: Secret, **arguments: Any) -> Client:
    """The client library, which sends nothing twice."""
    return Client(
        endpoint, access_key=secret.access, secret_key=secret.secret, region=secret.region, retries=0, **arguments
    )
