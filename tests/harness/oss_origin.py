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
from harness.fake.objects import copy_source
from harness.fake.operations import perform
from harness.fake.payload import Payload
from harness.fake.responses import Answer, error_response
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.oss.authority import OssAuthority
from harness.oss.oss_request import OssRequest, check, parse
from harness.oss.oss_response import crc_of, to_oss_response, type_of
from harness.reference_sigv4 import Secret

OSS_SECRET = Secret("ossaccess", "osssecret", "test-1")
SMALLEST = 100 << 10
DOMAIN = "oss-test-1.localhost"
_LISTINGS = {"ListObjects", "ListObjectsV2", "ListObjectVersions"}
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

    def _parse_request(self, request: web.BaseRequest) -> OssRequest:
        return parse(request.method, request.raw_path, request.headers, DOMAIN)

    def _verify_signature(self, request: web.BaseRequest, s3_request: S3Request) -> Proof | None:
        assert isinstance(s3_request, OssRequest)
        check(s3_request)
        if self.verify and not self._is_open_to_all(s3_request):
            self._oss.verify(s3_request)
        return None

    def _read_payload(self, raw: bytes, s3_request: S3Request, proof: Proof | None) -> Payload:
        given = s3_request.headers.get("Content-MD5")
        if s3_request.operation == "DeleteObjects" and given is None:
            raise Refusal("MissingArgument", "Missing Some Required Arguments.", ArgumentName="Content-MD5")
        digest = base64.b64encode(hashlib.md5(raw, usedforsecurity=False).digest()).decode()
        if given is not None and given != digest:
            raise Refusal("InvalidDigest", "The Content-MD5 you specified was invalid.")
        if s3_request.operation not in {"PutObject", "UploadPart"} and b"xmlns" in raw:
            raise Refusal("MalformedXML", "OSS's documents have no namespace.")
        return Payload(_manifest(raw) if s3_request.operation == "CompleteMultipartUpload" else raw)

    def _perform(self, s3_request: S3Request, payload: Payload) -> Answer:
        assert isinstance(s3_request, OssRequest)
        try:
            if s3_request.operation == "GetObject":
                s3_request = self._ranged(s3_request)
            if s3_request.operation in _LISTINGS and "max-keys" not in s3_request.query:
                s3_request = replace(s3_request, query={**s3_request.query, "max-keys": "100"})
            answer = perform(self.store, s3_request, payload, self._smallest)
            if answer.status == 412:
                self._refuse_otherwise(s3_request)
        except Refusal as refusal:
            answer = error_response(refusal, s3_request.raw_path, s3_request.method == "HEAD")
            return Answer(304, bodiless=True) if refusal.status == 304 else self._translate_response(answer, s3_request)
        return self._translate_response(answer, s3_request)

    def _refuse_otherwise(self, s3_request: OssRequest) -> None:
        """Refusal: where OSS says no in another way than S3."""
        if s3_request.sent.get("x-oss-forbid-overwrite") == "true":
            raise Refusal("FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
        if s3_request.operation in {"CopyObject", "UploadPartCopy"}:
            headers = s3_request.headers.copy()
            for name in ("if-none-match", "if-modified-since"):
                headers.popall(f"x-amz-copy-source-{name}", None)
            copy_source(
                self.store, replace(s3_request, headers=CIMultiDictProxy(headers))
            )  # 412, if it is one of these
            raise Refusal("NotModified", "Not Modified")

    def _ranged(self, s3_request: OssRequest) -> OssRequest:
        """Without `x-oss-range-behavior: standard`, only a range that lies in the object is one."""
        if s3_request.range is None or s3_request.sent.get("x-oss-range-behavior") == "standard":
            return s3_request
        try:
            current = self.store.get(s3_request.bucket or "", s3_request.key or "", s3_request.query.get("versionId"))
        except Refusal:
            return s3_request
        found = _ONE_RANGE.fullmatch(s3_request.range)
        if found is not None:
            first, last = found[1], found[2]
            if first and int(first) <= int(last or current.size - 1) < current.size:
                return s3_request
            if not first and last and 0 < int(last) <= current.size:
                return s3_request
        headers = s3_request.headers.copy()
        headers.popall("Range")
        return replace(s3_request, headers=CIMultiDictProxy(headers))

    def _translate_response(self, answer: Answer, s3_request: S3Request) -> Answer:
        assert isinstance(s3_request, OssRequest)
        facts: tuple[tuple[str, str], ...] = ()
        if answer.status < 300 and s3_request.bucket in self.store.buckets and s3_request.key is not None:
            facts = self._facts(s3_request)
        return to_oss_response(answer, s3_request, *facts)

    def _facts(self, s3_request: OssRequest) -> tuple[tuple[str, str], ...]:
        home = self.store.bucket(s3_request.bucket or "")
        if s3_request.operation == "UploadPart":
            part = home.uploads[s3_request.query["uploadId"]].parts.get(int(s3_request.query["partNumber"]))
            return (("x-oss-hash-crc64ecma", crc_of(part.content)),) if part is not None else ()  # a fault kept it away
        if s3_request.operation == "UploadPartCopy":  # oss2 reads it there
            part = home.uploads[s3_request.query["uploadId"]].parts.get(int(s3_request.query["partNumber"]))
            return (("ETag", part.etag.upper()),) if part is not None else ()  # likewise
        if s3_request.operation in {"GetObject", "HeadObject"}:
            version = self.store.get(home.name, s3_request.key or "", s3_request.query.get("versionId"))
            facts = (("x-oss-hash-crc64ecma", crc_of(version.content)), ("x-oss-object-type", type_of(version)))
            if "x-amz-storage-class" in dict(version.headers):
                return facts
            return (*facts, ("x-oss-storage-class", "Standard"))
        if s3_request.operation in {"PutObject", "CopyObject", "CompleteMultipartUpload"}:
            version = self.store.get(home.name, s3_request.key or "")
            crc = ("x-oss-hash-crc64ecma", crc_of(version.content))
            return (crc,) if s3_request.operation == "PutObject" else (crc, ("ETag", version.etag.upper()))
        return ()

    @property
    def _server_headers(self) -> Sequence[str]:
        return ("Server: AliyunOSS", "x-oss-request-id: FAKE", "x-oss-server-time: 1")


def _manifest(raw: bytes) -> bytes:
    """The parts with ETags as the store has them. OSS's are in upper case, and one in lower case is none of them."""
    try:
        tree = Tree.fromstring(raw)
    except Tree.ParseError:
        return raw
    for each in tree.iter("ETag"):
        each.text = (each.text or "").swapcase()
    return Tree.tostring(tree)
