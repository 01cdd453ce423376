"""A client that records responses: the part that must be equal with and without Forebay.

Requests are built by hand, so that any header can be malformed, and signed by botocore's signer, which is independent
of Forebay's. The record leaves out times, ids and tokens (replaced by their names), error messages, and headers that
name no property of the response (Date, Server, request ids).
"""

import base64
import hashlib
import http.client
import itertools
import re
import socket
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlencode

from botocore.auth import HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REGION: Final = "us-east-1"
_TOLD: Final = (
    "content-type",
    "content-length",
    "content-range",
    "content-encoding",
    "content-language",
    "content-disposition",
    "cache-control",
    "expires",
    "accept-ranges",
    "etag",
    "location",
    "x-amz-mp-parts-count",
    "x-amz-delete-marker",
    "x-amz-tagging-count",
    "x-amz-website-redirect-location",
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-checksum-type",
    "x-amz-expiration",
    "x-amz-restore",
)
_NOTHING: Final = (("access-control-allow-origin", "*"),)
_OF_BODIES: Final = ("content-length", "content-type", "last-modified")
"""Need not be told where there is no body."""
_PREFIXES: Final = ("x-amz-meta-", "x-amz-checksum-", "access-control-", "x-amz-object-lock-", "x-amz-server-side")
_PRESENT: Final = ("x-amz-version-id", "last-modified", "x-amz-copy-source-version-id")
"""Those whose value differs from run to run."""
_OF_REFUSALS: Final = ("x-amz-delete-marker", "allow")
"""What a refusal says beside its code."""
_DIFFERS: Final = re.compile(
    rb"<(LastModified|UploadId|VersionId|VersionIdMarker|NextVersionIdMarker|UploadIdMarker|NextUploadIdMarker|"
    rb"DeleteMarkerVersionId|RequestId|HostId|Initiated|CreationDate|ContinuationToken|NextContinuationToken|"
    rb"Message|Resource|Location|ID|DisplayName)( ?/>|>[^<]*</\1>)"
)
_DELETED: Final = re.compile(rb"<Deleted>.*?</Deleted>")
_NUMBER: Final = re.compile(rb"alike-\d{6}")
_NUMBERS: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def of(self, tag: str) -> str:
        """The first element of that name in the body."""
        found = re.search(rf"<{tag}>([^<]*)</{tag}>".encode(), self.body)
        return found[1].decode() if found else ""

    @property
    def etag(self) -> str:
        return self.headers.get("etag", "")


@dataclass(slots=True)
class RecordingClient:
    """Asks at one endpoint, with one key."""

    port: int
    access_key: str
    secret_key: str
    transcript: list[str] = field(default_factory=list)
    bucket: str = ""

    @contextmanager
    def fresh(self, name: str) -> Iterator[None]:
        """With a new bucket; its name has the same length in every run."""
        self.transcript, self.bucket = [], f"alike-{next(_NUMBERS):06}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        self.send("PUT", quiet=True)
        yield

    def send(
        self,
        method: str,
        key: str | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        quiet: bool = False,
        signed: bool = True,
        unsigned: Mapping[str, str] | None = None,
        bucket: str | None = None,
        framed: bytes | None = None,
    ) -> Answer:
        """One signed request. `unsigned`: headers that are added, or replace others, after it was signed; an empty
        value takes one away. `framed`: what is sent in place of `body`. `quiet`: not taken down."""
        path = self.path(key, query, bucket)
        request = AWSRequest(method, f"http://127.0.0.1:{self.port}{path}", headers=dict(headers or {}), data=body)
        if signed:
            S3SigV4Auth(Credentials(self.access_key, self.secret_key), "s3", REGION).add_auth(request)
        asked = {name: str(value) for name, value in request.headers.items()}
        asked.setdefault("Content-Length", str(len(body)))
        for name, value in (unsigned or {}).items():
            asked.pop(name, None)
            if value:
                asked[name] = value
        return self.send_raw(method, path, asked, body if framed is None else framed, quiet=quiet)

    def chunked(
        self,
        method: str,
        key: str | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        """One signed request whose body comes in HTTP's chunks, and does not say how long it is."""
        half = len(body) // 2
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:half], body[half:]) if piece)
        bare = {"Content-Length": "", "Transfer-Encoding": "chunked"}
        return self.send(method, key, query, headers, body, unsigned=bare, framed=pieces + b"0\r\n\r\n")

    def other(self, access_key: str, secret_key: str) -> "RecordingClient":
        """Somebody else, who asks about the same bucket; what is answered is taken down with the rest."""
        return RecordingClient(self.port, access_key, secret_key, self.transcript, self.bucket)

    def url(self, method: str, key: str, seconds: int = 60, *, version: int = 4, query: str = "") -> str:
        """A presigned path and query."""
        request = AWSRequest(method, f"http://127.0.0.1:{self.port}{self.path(key)}{query}")
        credentials = Credentials(self.access_key, self.secret_key)
        if version == 4:  # the signature's version
            S3SigV4QueryAuth(credentials, "s3", REGION, expires=seconds).add_auth(request)
        else:
            HmacV1QueryAuth(credentials, expires=seconds).add_auth(request)
        return str(request.url).partition(f":{self.port}")[2]

    def send_raw(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"", *, quiet: bool = False
    ) -> Answer:
        """As it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value.encode())
            connection.endheaders(body or None)
            answered = connection.getresponse()
            answer = Answer(
                answered.status, {name.lower(): value for name, value in answered.getheaders()}, answered.read()
            )
        except (OSError, http.client.HTTPException) as error:
            answer = Answer(0, {}, type(error).__name__.encode())
        finally:
            connection.close()
        if not quiet:
            self.transcript.append(self._record(method, path, answer))
        return answer

    def expecting(
        self,
        key: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        bucket: str | None = None,
        secret_key: str | None = None,
    ) -> None:
        """Writes, and sends the body only if it is told to, or told nothing for a second; what comes of it in the end
        is taken down. (Whether it is told to before the refusal that is bound to come is a server's own choice.)"""
        path = self.path(key, bucket=bucket)
        asked = {"Expect": "100-continue", **(headers or {})}
        request = AWSRequest("PUT", f"http://127.0.0.1:{self.port}{path}", headers=asked, data=body)
        S3SigV4Auth(Credentials(self.access_key, secret_key or self.secret_key), "s3", REGION).add_auth(request)
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        lines += [f"Host: 127.0.0.1:{self.port}", f"Content-Length: {len(body)}"]
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            head = "\r\n".join((f"PUT {path} HTTP/1.1", *lines, "", ""))
            connection.sendall(head.encode())
            connection.settimeout(1)
            first = b""
            with suppress(TimeoutError):
                first = connection.recv(65_536)
            if not first or first.startswith(b"HTTP/1.1 100 "):
                connection.sendall(body)
            answered = http.client.HTTPResponse(connection, method="PUT")
            connection.settimeout(60)
            if first and not first.startswith(b"HTTP/1.1 100 "):
                status = int(first.split()[1])
            else:
                answered.begin()
                status = answered.status
        self.transcript.append(f"PUT {path.replace(self.bucket, 'BUCKET')} {status}")

    def interrupted(self, key: str, old: bytes, new: bytes) -> None:
        """Writes `old`, reads half of it, writes `new`, reads on: what was read as a whole is taken down."""
        self.send("PUT", key, body=old, quiet=True)
        request = AWSRequest("GET", f"http://127.0.0.1:{self.port}{self.path(key)}")
        S3SigV4Auth(Credentials(self.access_key, self.secret_key), "s3", REGION).add_auth(request)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", self.path(key), headers=dict(request.headers.items()))
            answered = connection.getresponse()
            body = answered.read(len(old) // 2)
            self.send("PUT", key, body=new)
            try:
                body += answered.read()
                what = "all of the old" if body == old else "something else"
            except (OSError, http.client.HTTPException):
                what = "cut off"
        finally:
            connection.close()
        self.transcript.append(f"GET /BUCKET/{key} {answered.status} {what}")
        self.send("GET", key)

    def path(self, key: str | None = None, query: Mapping[str, str] | None = None, bucket: str | None = None) -> str:
        path = "/" + quote(self.bucket if bucket is None else bucket, safe="~")
        if key is not None:
            path += "/" + quote(key, safe="/~")
        if query:
            path += "?" + urlencode(query, quote_via=quote, safe="~")
        return path

    def _record(self, method: str, path: str, answer: Answer) -> str:
        named = path.replace(self.bucket, "BUCKET") if self.bucket else path
        lines = [f"{method} {named.partition('?')[0]} {answer.status}"]
        if answer.status >= 300 and answer.status != 304:
            told = [lines[0], answer.of("Code")]
            told += [f"{name}: {answer.headers[name]}" for name in _OF_REFUSALS if name in answer.headers]
            if answer.of("RequestId"):
                same = answer.of("RequestId") == answer.headers.get("x-amz-request-id")
                told.append("the same id in head and body" if same else "another id in the head")
            return " ".join(told)
        for name, value in sorted(answer.headers.items()):
            if (name, value) in _NOTHING or (name in _OF_BODIES and answer.status in {204, 304}):
                continue
            if name in _TOLD or name.startswith(_PREFIXES):
                lines.append(f"{name}: {value}")
            elif name in _PRESENT:
                lines.append(name)
        body = answer.body
        if body.lstrip().startswith(b"<"):
            lines = [line for line in lines if not line.startswith("content-length")]
            body = _DIFFERS.sub(rb"<\1>", body)
            body = b"".join(sorted(_DELETED.findall(body))) + _DELETED.sub(b"", body)  # Swift tells them in any order
        body = _NUMBER.sub(b"alike-N", body.replace(self.bucket.encode(), b"BUCKET"))
        boundary = re.search("boundary=([0-9a-f]+)", answer.headers.get("content-type", ""))
        if boundary is not None:
            body = body.replace(boundary[1].encode(), b"BOUNDARY")
            lines = [line.replace(boundary[1], "BOUNDARY") for line in lines]
        lines.append(repr(body) if len(body) < 2000 else hashlib.sha256(body).hexdigest())
        return "\n".join(lines).replace(self.bucket, "BUCKET").replace(str(self.port), "PORT")


def md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def crc32(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big")
