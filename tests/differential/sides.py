"""The two ways that a program goes: straight to an origin, and through a Forebay to another one.

Both origins and the Forebay have one clock, which stands still but for a program's pauses, so that equal times are
equal to the second.
"""

import html
import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias
from urllib.parse import unquote

from differential.oss_dialect import OssClient
from differential.posted_form import FORM_TYPE, posted_form
from differential.program import FRAMED, Call, Content, md5_of
from differential.program_generator import MEMBERS, NAMES, PACKED
from harness.aws_chunked import Framing
from harness.clients import UNSIGNED_PAYLOAD, RawClient, path_of, query_of
from harness.fake.actions import HoldRequest
from harness.fake.checksums import digest_of
from harness.fake.content import Stored
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake.store import StoredObject, md5_etag
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.packed_objects import shard_and_index
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER, Secret
from harness.rig import TRAINER, Rig
from harness.worker_node import Node
from security.signers import SIGNERS

_KINDS: Final = dict(zip(FRAMED, (SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER), strict=True))
_PLACEHOLDER: Final = re.compile(r"\{(\w+):([^}]*)\}")
DOMAIN: Final = "s3.test"
_BUCKETS: Final = ("open", "listed", "back", "kept")
RULES: Final = """\
[journal]
path = "{journal}"
size = "64MiB"

[[rules]]
path = "open*/always/**"
freshness = "always"

[[rules]]
path = "open*/frozen/**"
freshness = "immutable"

[[rules]]
path = "open*/small/**"
block = "64KiB"

[[rules]]
path = "open*/warm/**"
warm_on_write = true

[[rules]]
path = "open*/passed/**"
accelerate = false

[[rules]]
path = "listed*1/**"
listing = "10m"

[[rules]]
path = "listed*/**"
listing = "immutable"

[[rules]]
path = "back*/**"
write = "back"

[[rules]]
path = "packed*3/**"
listing = "10m"

[[rules]]
path = "packed*2/train/**"
freshness = "always"

[[rules]]
path = "packed*/train/**"
packed = "packed/**"
freshness = "60s"
"""
_SIZES: Final = (0, 1, 7, 100, 1000, 70_000)
_DESCRIBED: Final = (("content-type", "image/jpeg"), ("x-amz-meta-label", "cat"))
_DOMAINS: Final = f'domains = ["{DOMAIN}"]'
PLAIN_RULES: Final = """\
[[rules]]
path = "**"
accelerate = false
"""


class Clock:
    """Seconds, whole ones, of all sides."""

    def __init__(self, seconds: float) -> None:
        self.seconds = float(int(seconds))

    def __call__(self) -> float:
        return self.seconds


class ClockedRig(Rig):
    """A Forebay with a clock of ours."""

    def __init__(
        self, origin: FakeOrigin, directory: Path, clock: Clock, *, rules: str = RULES, **settings: str
    ) -> None:
        rules = rules.format(journal=directory / "journal")
        super().__init__(
            origin.endpoint, origin.secret, directory, ssd="64MiB", server=_DOMAINS, rest=rules, **settings
        )
        self.configuration = self.configuration.replace('drain_timeout = "5s"', 'drain_timeout = "1ms"')
        self._clock = clock

    def now(self) -> float:
        return self._clock()

    async def settled(self) -> None:
        """Waits until no write is pending and nothing happens in the background."""
        assert self.parts.writes.write_back is not None
        await self.parts.writes.write_back.pending.wait_settled(lambda _: True)
        await self.parts.context.tasks.wait_idle()


class Objects:
    """What both sides must say alike of objects, as the direct side last said it."""

    def __init__(self) -> None:
        self.etags: dict[str, str] = {}
        self.times: dict[str, str] = {}

    def learn(self, call: Call, answer: RawAnswer) -> None:
        if answer.status in {200, 206} and call.key is not None:
            if etag := answer.headers.get("ETag", ""):
                self.etags[call.name()] = etag.strip('"')
            if modified := answer.headers.get("Last-Modified", ""):
                self.times[call.name()] = modified


Fields: TypeAlias = Mapping[str, str | bytes]
"""What is compared, by name."""


class Client(Protocol):
    """Sends one call, its placeholders resolved."""

    async def send(self, call: Call, target: str, headers: list[tuple[str, str]], body: bytes) -> RawAnswer: ...


class S3Client:
    def __init__(self, endpoint: str, secret: Secret, clock: Callable[[], float], *, only_v4: bool = False) -> None:
        """`only_v4`: for an endpoint that knows no other signature."""
        self._endpoint, self._secret, self._clock, self._only_v4 = endpoint, secret, clock, only_v4
        self._raw = RawClient(endpoint, secret, clock=clock)

    async def send(self, call: Call, target: str, headers: list[tuple[str, str]], body: bytes) -> RawAnswer:
        if call.form == "posted":
            form = posted_form(self._secret, target[1:], headers, body, self._clock())
            return await self._raw.unsigned("POST", target, (("Content-Type", FORM_TYPE),), form)
        if call.form.startswith("v2") and not self._only_v4:
            sign = SIGNERS["SignedV2", call.form.partition("-")[2] or "header"]
            return await self._raw.send(sign(self._secret, call.method, target, headers, body, self._clock(), None))
        if call.form in {"presigned", "v2-query"}:
            return await self._raw.unsigned(
                call.method, self._raw.presign(call.method, target, headers=headers), headers, body
            )
        payload = UNSIGNED_PAYLOAD if call.form == "unsigned" else None
        framing = None
        if call.form in FRAMED and call.trailer == "wrong":
            framing = Framing(_KINDS[call.form], checksum=digest_of("crc32", b"other"))
        elif call.form in FRAMED:
            framing = Framing(_KINDS[call.form], algorithm=call.trailer)
        client = self._raw
        if call.is_virtual:
            bucket, slash, rest = target[1:].partition("/")
            bare, mark, query = bucket.partition("?")
            target = f"/{rest}" if slash else f"/{mark}{query}"
            host = f"{bare}.{DOMAIN}:{client.address[1]}"
            client = RawClient(self._endpoint, self._secret, host=host, clock=self._clock)
        return await client.request(call.method, target, headers, body, payload=payload, framing=framing)


class Side:
    """One way, for one program: its client, and the names that the way has invented."""

    def __init__(self, client: Client, objects: Objects, program: str) -> None:
        self._client, self.objects, self.program = client, objects, program
        self.names: dict[str, str] = {}
        """Upload ids, version ids and tokens, and the placeholder of each."""
        self._values: dict[str, str] = {}

    def bucket(self, kind: str) -> str:
        return f"{kind}-{self.program}"

    def _resolve(self, text: str) -> str:
        kinds: dict[str, Callable[[str], str]] = {
            "bucket": self.bucket,
            "etag": lambda name: self.objects.etags.get(name, "0" * 32),
            "modified": lambda name: self.objects.times.get(name, "Wed, 18 Nov 1998 10:00:00 GMT"),
        }

        def value(found: re.Match[str]) -> str:
            resolver = kinds.get(found[1])
            return resolver(found[2]) if resolver else self._values.get(found[0], "unknown")

        return _PLACEHOLDER.sub(value, text)

    async def send(self, call: Call) -> RawAnswer:
        body = self._resolve(call.body).encode() if isinstance(call.body, str) else call.body.bytes()
        query = query_of({name: self._resolve(value) for name, value in call.query})
        target = path_of(self.bucket(call.bucket), call.key) + (f"?{query}" if query else "")
        headers = [(name, self._resolve(value)) for name, value in call.headers]
        if call.digest:
            headers.append(("Content-MD5", md5_of(body if call.digest == "right" else b"other")))
        answer = await self._client.send(call, target, headers, body)
        self._learn(call, answer)
        return answer

    def _learn(self, call: Call, answer: RawAnswer) -> None:
        for kind, name in (("upload", "UploadId"), ("token", "NextContinuationToken")):
            if found := re.search(rf"<{name}>([^<]*)</{name}>".encode(), answer.body):
                self._name(kind, call, unquote(found[1].decode()))  # as OSS clients do; no other id has a percent sign
        for kind, pattern in (("key-marker", "NextKeyMarker"), ("id-marker", "Next(?:Upload|Version)IdMarker")):
            if found := re.search(rf"<{pattern}>([^<]+)<".encode(), answer.body):
                text = html.unescape(found[1].decode())
                is_encoded = ("encoding-type", "url") in call.query or b"<EncodingType>url<" in answer.body
                self._values[f"{{{kind}:{call.number}}}"] = unquote(text) if is_encoded else text
        if (
            call.method != "GET"
            and answer.status < 300
            and (version := answer.headers.get("x-amz-version-id", answer.headers.get("x-oss-version-id")))
        ):
            self._name("version", call, version)
        for found in re.findall(rb"<DeleteMarkerVersionId>([^<]*)</DeleteMarkerVersionId>", answer.body):
            self.names.setdefault(found.decode(), f"{{marker:{len(self.names)}}}")
        if call.method == "PUT":
            found = re.search(rb"<ETag>(?:&quot;|\")?([^<&\"]*)", answer.body)
            etag = found[1].decode() if found else answer.headers.get("ETag", "").strip('"')
            self._values[f"{{part:{call.number}}}"] = etag or "0" * 32

    def _name(self, kind: str, call: Call, value: str) -> None:
        placeholder = f"{{{kind}:{call.number}}}"
        self._values[placeholder] = value
        if value not in {"null", "unknown"}:
            self.names.setdefault(value, placeholder)


def _is_back(request: S3Request) -> bool:
    return (request.bucket or "").startswith("back-")


def _contents(origin: FakeOrigin, program: str) -> Fields:
    """Each version of each object, and each upload with its parts, but those that a journal keeps."""
    found: dict[str, str | bytes] = {}
    for kind in _BUCKETS:
        bucket = origin.store.buckets[f"{kind}-{program}"]
        for key, versions in bucket.versions.items():
            for number, each in enumerate(versions):
                content = b"".join(each.content.views(0, each.size))
                headers = {"content-type": "binary/octet-stream", **dict(each.headers)}
                facts = (sorted(headers.items()), each.tags, each.part_sizes, sorted(each.checksums))
                found[f"LastModified {kind}/{key} {number}"] = str(each.modified)
                found[f"object {kind}/{key} {number}"] = f"{each.etag} {each.marker} {facts} {content.hex()}"
        for number, upload in enumerate(bucket.uploads.values() if kind != "back" else ()):
            parts = [(at, part.etag, part.checksums) for at, part in sorted(upload.parts.items())]
            found[f"upload {kind} {number}"] = f"{upload.key} {sorted(upload.headers)} {upload.tags} {parts}"
    return found


class AlternatingClient:
    """Sends each request to the next of several workers."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self._clients = itertools.cycle(clients)

    async def send(self, call: Call, target: str, headers: list[tuple[str, str]], body: bytes) -> RawAnswer:
        return await next(self._clients).send(call, target, headers, body)


class Pair:
    """Two origins of equal content, and the Forebay in front of the second."""

    def __init__(self, directory: Path, clock: Clock, kind: str = "s3") -> None:
        """`kind`: "s3" or "oss", the protocol of both origins and their clients; "s3-on-oss": clients of S3 and
        origins of OSS, where the direct way is a Forebay that keeps nothing and only translates; "s3-workers": a
        Forebay of two workers, where everybody has the system's clock, and no times are compared."""
        self.clock, self._kind = clock, kind
        self.has_one_clock = not kind.endswith("-workers")
        self._dialect = "oss" if kind in {"oss", "s3-on-oss", "packed-oss"} else "swift"
        self.direct, self.behind = self._origin(), self._origin()
        self._directory, self._stack = directory, AsyncExitStack()
        self._programs, self._gate = 0, Gate()
        self.rig: ClockedRig
        self.plain: ClockedRig
        """Of the direct way, where that is a Forebay."""
        self.node: Node
        """In place of `rig`."""

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.direct)
        await self._stack.enter_async_context(self.behind)
        if not self.has_one_clock:
            self._directory.mkdir(parents=True, exist_ok=True)
            rules = RULES.format(journal=self._directory / "journal")
            self.node = Node(self.behind, self._directory, ssd="64MiB", server=_DOMAINS, rest=rules)
            await self._stack.enter_async_context(self.node)
            return self
        self.rig = ClockedRig(self.behind, self._directory, self.clock, dialect=self._dialect)
        await self._stack.enter_async_context(self.rig)
        if self._kind == "s3-on-oss":
            plain = self._directory / "plain"
            plain.mkdir(parents=True)
            self.plain = ClockedRig(self.direct, plain, self.clock, rules=PLAIN_RULES, dialect=self._dialect)
            await self._stack.enter_async_context(self.plain)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def sides(self) -> tuple[Side, Side]:
        """Both ways for a new program, with buckets of its own."""
        self._programs += 1
        for origin in (self.direct, self.behind):
            for kind in _BUCKETS:
                origin.store.create_bucket(f"{kind}-{self._programs:04}")
        if self._kind.startswith(PACKED):
            self._pack(f"{PACKED}-{self._programs:04}")
        objects, program = Objects(), f"{self._programs:04}"
        direct, through = self._clients()
        return Side(direct, objects, program), Side(through, objects, program)

    def _pack(self, bucket: str) -> None:
        """Has the direct origin have objects, which are the members of a pack at the other."""
        modified = int(self.clock()) - 3600

        def etag_of(content: bytes) -> str:
            etag = md5_etag(content)
            return etag.upper() if self._dialect == "oss" else etag

        contents = {
            MEMBERS + name: Content(number, _SIZES[number % len(_SIZES)]).bytes() for number, name in enumerate(NAMES)
        }
        for origin in (self.direct, self.behind):
            origin.store.create_bucket(bucket)
        for key, content in contents.items():
            stored = StoredObject(key, Stored(content), md5_etag(content), modified, _DESCRIBED)
            self.direct.store.add(self.direct.store.bucket(bucket), stored)
        described = (("Content-Type", "image/jpeg"), *_DESCRIBED[1:])
        shard, index = shard_and_index(contents, prefix=MEMBERS, headers=described, modified=modified, etag_of=etag_of)
        self.behind.store.put(bucket, "packed/0.tar", shard)
        self.behind.store.put(bucket, "packed/index.fbpack", index)

    def hold(self) -> None:
        """Keeps what is put under `write = "back"` pending, until `settled` waits for it."""
        self.behind.faults.add(HoldRequest(self._gate), operation="PutObject", where=_is_back)

    async def settled(self) -> None:
        """Waits until no write is pending and nothing happens in the background."""
        self._gate.open()
        if self.has_one_clock:
            await self.rig.settled()
        else:
            order = {"bucket": f"back-{self._programs:04}", "wait": 30}
            status, flushed = await self.node.request_admin("POST", "/v1/flush", order)
            assert (status, flushed["left"]) == (200, 0), flushed

    def contents(self, program: str) -> tuple[Fields, Fields]:
        """What both origins have in the buckets of a program."""
        return _contents(self.direct, program), _contents(self.behind, program)

    def _origin(self) -> FakeOrigin:
        if self._dialect == "oss":
            return OssOrigin(clock=self.clock, keep_log=False)
        clock = self.clock if self.has_one_clock else time.time
        origin = FakeOrigin(clock=clock, smallest_part=1000, keep_log=False, domain=DOMAIN)
        origin.is_public = lambda request: request.operation == "PostObject"
        return origin

    def _clients(self) -> tuple[Client, Client]:
        if self._kind == "s3-on-oss":
            plain = S3Client(self.plain.endpoint, TRAINER, self.clock)
            return plain, S3Client(self.rig.endpoint, TRAINER, self.clock)
        if self._kind in {"oss", "packed-oss"}:
            port = self.rig.worker.address[1]
            return (
                OssClient(self.direct.port, self.direct.secret, self.clock, virtual=True),
                OssClient(port, TRAINER, self.clock, virtual=False),
            )
        clock = self.clock if self.has_one_clock else time.time
        direct = S3Client(self.direct.endpoint, self.direct.secret, clock, only_v4=True)
        if not self.has_one_clock:
            return direct, AlternatingClient([S3Client(self.node.endpoint(each), TRAINER, clock) for each in (0, 1)])
        return direct, S3Client(self.rig.endpoint, TRAINER, self.clock)
