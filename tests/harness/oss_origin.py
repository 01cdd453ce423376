"""OssOrigin: a stand-in for Alibaba OSS, in its native protocol, over the store of the fake S3 origin.

    async with OssOrigin() as origin:
        origin.store.put("bucket", "key", b"bytes")         # the foreign writer
        ... something reads from origin.endpoint with origin.secret ...

It was written from the protocol's documentation and from what the vendor's SDKs send and expect; nobody has compared it
with the service. It is strict where the service is known to be, and where it is not known: buckets in the host name
only, signature version 4, no header and no framing of Amazon's, Content-MD5 for a batch delete, ETags in upper case and
compared as they are, parts of 100 KB at least, and a range that does not lie in the object answered with 200 and all of
it unless `x-oss-range-behavior: standard` came along.

It listens on the loopback as `oss-test-1.localhost`, buckets in front of that (the vendor's oss2 would take `localhost`
itself for a path-style endpoint).
"""

import base64
import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from xml.etree import ElementTree as Tree

from aiohttp import web
from multidict import CIMultiDictProxy

from harness.fake.authority import Proof
from harness.fake.errors import Refusal
from harness.fake.operations import perform
from harness.fake.payload import Payload
from harness.fake.responses import Answer, refused
from harness.fake.s3_request import Asked
from harness.fake_origin import FakeOrigin
from harness.oss.authority import OssAuthority
from harness.oss.oss_request import OssAsked, check, parse
from harness.oss.oss_response import crc_of, told, type_of
from harness.reference_sigv4 import Secret

OSS_SECRET = Secret("ossaccess", "osssecret", "test-1")
SMALLEST = 100 << 10
DOMAIN = "oss-test-1.localhost"
_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class OssOrigin(FakeOrigin):
    """`store`, `faults` and `log` are the fake's."""

    def __init__(
        self,
        *,
        verify: bool = True,
        secrets: Sequence[Secret] = (OSS_SECRET,),
        keep_log: bool = True,
        port: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            verify=verify, secrets=secrets, smallest_part=SMALLEST, keep_log=keep_log, port=port, clock=clock
        )
        self._oss = OssAuthority({each.access: each for each in secrets}, clock)

    @property
    def endpoint(self) -> str:
        return f"http://{DOMAIN}:{self.port}"

    def _asked(self, request: web.BaseRequest) -> OssAsked:
        return parse(request.method, request.raw_path, request.headers, DOMAIN)

    def _proof(self, request: web.BaseRequest, asked: Asked) -> Proof | None:
        assert isinstance(asked, OssAsked)
        check(asked)
        if self.verify:
            self._oss.verify(asked)
        return None

    def _payload(self, raw: bytes, asked: Asked, proof: Proof | None) -> Payload:
        given = asked.headers.get("Content-MD5")
        if asked.operation == "DeleteObjects" and given is None:
            raise Refusal("MissingArgument", "Missing Some Required Arguments.", ArgumentName="Content-MD5")
        digest = base64.b64encode(hashlib.md5(raw, usedforsecurity=False).digest()).decode()
        if given is not None and given != digest:
            raise Refusal("InvalidDigest", "The Content-MD5 you specified was invalid.")
        if asked.operation not in {"PutObject", "UploadPart"} and b"xmlns" in raw:
            raise Refusal("MalformedXML", "OSS's documents have no namespace.")
        return Payload(_manifest(raw) if asked.operation == "CompleteMultipartUpload" else raw)

    def _performed(self, asked: Asked, payload: Payload) -> Answer:
        assert isinstance(asked, OssAsked)
        try:
            if asked.operation == "GetObject":
                asked = self._ranged(asked)
            if asked.operation in {"ListObjects", "ListObjectsV2"} and "max-keys" not in asked.query:
                asked = replace(asked, query={**asked.query, "max-keys": "100"})
            answer = perform(self.store, asked, payload, self._smallest)
            if answer.status == 412:
                self._refuse_otherwise(asked)
        except Refusal as refusal:
            answer = refused(refusal, asked.raw_path, asked.method == "HEAD")
            return self._told(replace(answer, bodiless=answer.bodiless or refusal.status == 304), asked)
        return self._told(answer, asked)

    def _refuse_otherwise(self, asked: OssAsked) -> None:
        """Refusal: where OSS says no in another way than S3."""
        if asked.sent.get("x-oss-forbid-overwrite") == "true":
            raise Refusal("FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
        names = ("if-match", "if-unmodified-since")
        if asked.operation in {"CopyObject", "UploadPartCopy"} and not any(
            f"x-oss-copy-source-{name}" in asked.sent for name in names
        ):
            raise Refusal("NotModified", "Not Modified")

    def _ranged(self, asked: OssAsked) -> OssAsked:
        """Without `x-oss-range-behavior: standard`, only a range that lies in the object is one."""
        if asked.range is None or asked.sent.get("x-oss-range-behavior") == "standard":
            return asked
        current = self.store.current(asked.bucket or "", asked.key or "")
        found = _ONE_RANGE.fullmatch(asked.range)
        if current is not None and found is not None:
            first, last = found[1], found[2]
            if first and int(first) <= int(last or current.size - 1) < current.size:
                return asked
            if not first and last and 0 < int(last) <= current.size:
                return asked
        headers = asked.headers.copy()
        headers.popall("Range")
        return replace(asked, headers=CIMultiDictProxy(headers))

    def _told(self, answer: Answer, asked: Asked) -> Answer:
        assert isinstance(asked, OssAsked)
        facts: tuple[tuple[str, str], ...] = ()
        if answer.status < 300 and asked.bucket in self.store.buckets and asked.key is not None:
            facts = self._facts(asked)
        return told(answer, asked, *facts)

    def _facts(self, asked: OssAsked) -> tuple[tuple[str, str], ...]:
        home = self.store.bucket(asked.bucket or "")
        if asked.operation == "UploadPart":
            upload = home.uploads[asked.query["uploadId"]]
            return (("x-oss-hash-crc64ecma", crc_of(upload.parts[int(asked.query["partNumber"])].content)),)
        if asked.operation in {"GetObject", "HeadObject"}:
            version = self.store.get(home.name, asked.key or "", asked.query.get("versionId"))
            return (("x-oss-hash-crc64ecma", crc_of(version.content)), ("x-oss-object-type", type_of(version)))
        if asked.operation in {"PutObject", "CopyObject", "CompleteMultipartUpload"}:
            version = self.store.get(home.name, asked.key or "")
            crc = ("x-oss-hash-crc64ecma", crc_of(version.content))
            return (crc,) if asked.operation == "PutObject" else (crc, ("ETag", version.etag.upper()))
        return ()

    @property
    def _signs(self) -> Sequence[str]:
        return ("Server: AliyunOSS", "x-oss-request-id: FAKE", "x-oss-server-time: 1")


def _manifest(raw: bytes) -> bytes:
    """The parts with ETags as the store has them. OSS's are in upper case, and one in lower case is none of them."""
    try:
        tree = Tree.fromstring(raw)  # noqa: S314  # written by our own tests
    except Tree.ParseError:
        return raw
    for each in tree.iter("ETag"):
        each.text = (each.text or "").swapcase()
    return Tree.tostring(tree)
