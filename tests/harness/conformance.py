"""An origin under the conformance suite: an endpoint, a secret, a bucket, and what is odd about it.

Everything goes over HTTP, signed; nothing here knows which origin it is but by `quirks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4
from xml.etree import ElementTree as Tree

from harness.clients import RawClient, path_of, query_of
from harness.quirks import Quirk
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret

Pairs = Sequence[tuple[str, str]]


def parsed(answer: RawAnswer) -> Tree.Element:
    """The answer's document, names without namespaces."""
    tree = Tree.fromstring(answer.body)
    for each in tree.iter():
        each.tag = each.tag.rpartition("}")[2]
    return tree


def code(answer: RawAnswer) -> str:
    """The error code of an answer with S3's error document."""
    return parsed(answer).findtext("Code") or ""


def texts(answer: RawAnswer, path: str) -> list[str]:
    return [each.text or "" for each in parsed(answer).iterfind(path)]


@dataclass(frozen=True, slots=True)
class Subject:
    endpoint: str
    secret: Secret
    bucket: str
    quirks: frozenset[Quirk] = field(default=frozenset())

    @property
    def client(self) -> RawClient:
        return RawClient(self.endpoint, self.secret)

    def has(self, quirk: Quirk) -> bool:
        return quirk in self.quirks

    def etag(self, digest: str) -> str:
        """A digest as the origin writes it."""
        return digest.upper() if self.has(Quirk.UPPER_CASE_ETAGS) else digest

    def target(self, key: str | None = None, **query: str) -> str:
        """The raw target; underscores of parameter names become dashes."""
        text = query_of({name.replace("_", "-"): value for name, value in query.items()})
        return path_of(self.bucket, key) + (f"?{text}" if text else "")

    async def ask(
        self, method: str, key: str | None = None, headers: Pairs = (), body: bytes = b"", /, **query: str
    ) -> RawAnswer:
        return await self.client.request(method, self.target(key, **query), headers, body)

    async def get(self, key: str, /, *headers: tuple[str, str], **query: str) -> RawAnswer:
        return await self.ask("GET", key, headers, **query)

    async def put(self, body: bytes = b"", key: str | None = None, *headers: tuple[str, str]) -> "Kept":
        """Puts an object under a fresh key unless one is given, and reads back what the origin says of it."""
        key = key or f"object-{uuid4().hex}"
        answer = await self.ask("PUT", key, headers, body)
        assert answer.status == 200, answer
        head = await self.ask("HEAD", key)
        return Kept(key, head.headers["ETag"], head.headers["Last-Modified"])


@dataclass(frozen=True, slots=True)
class Kept:
    key: str
    etag: str
    modified: str
