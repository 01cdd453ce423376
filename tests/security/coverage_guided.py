"""Coverage-guided fuzzing of everything that reads a client's bytes before anybody was let in.

    make fuzz-guided                                  every target in turn, RUNS each
    python -m security.coverage_guided xml -runs=...  one of them, with libFuzzer's options

A target may return or raise S3Error, nothing else: any other exception would be a 500 of our own making. Needs atheris
(https://github.com/google/atheris), which the make target installs; it has wheels for Linux.
"""

import base64
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import atheris

with atheris.instrument_imports(include=["forebay.protocol", "forebay.server.fastpath.request_head"]):
    from multidict import CIMultiDict, CIMultiDictProxy

    from forebay.core.errors import S3Error
    from forebay.protocol.body.aws_chunked_decoder import AwsChunkedDecoder
    from forebay.protocol.body.chunk_signatures import ChunkedMode
    from forebay.protocol.conditions import evaluate_conditions
    from forebay.protocol.copy_source import parse_copy_source
    from forebay.protocol.forms.form_reader import FormReader, boundary_of
    from forebay.protocol.forms.post_policy import read_policy
    from forebay.protocol.operations import classify
    from forebay.protocol.oss.oss_request import to_s3_request
    from forebay.protocol.range_header import parse_range, resolve
    from forebay.protocol.signatures.dialect_detection import speaks_oss
    from forebay.protocol.signatures.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4
    from forebay.protocol.signatures.oss_verification import verify_oss
    from forebay.protocol.signatures.signing_key import SecretKey
    from forebay.protocol.signatures.sigv4_claim import read_claim
    from forebay.protocol.target import Target, parse_target
    from forebay.protocol.xml.s3_documents import embedded_error, listed_keys
    from forebay.server.fastpath.request_head import parse_request_head
    from harness.uploaded_parts import uploaded_parts


def text(data: bytes) -> str:
    """As a header or a target comes from the wire."""
    return data.decode("utf-8", "surrogateescape")


def headers(data: bytes) -> "CIMultiDictProxy[str]":
    pairs = (line.partition(":") for line in text(data).split("\n"))
    return CIMultiDictProxy(CIMultiDict([(name, value) for name, _, value in pairs]))


def a_request(data: bytes) -> None:
    """A target, and the headers behind it: who signed it, what it asks for."""
    line, _, rest = data.partition(b"\n")
    target, fields = parse_target(text(line), "bucket.d", ("d",)), headers(rest)
    read_claim(target, fields)
    parse_copy_source(fields)
    classify("GET", target, fields)


def an_authorization(data: bytes) -> None:
    target = parse_target("/bucket/key", "h", ())
    date = ("x-amz-date", "20270115T080000Z")
    fields = [("Authorization", text(data)), date, ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("Host", "h")]
    read_claim(target, CIMultiDictProxy(CIMultiDict(fields)))


def an_oss_authorization(data: bytes) -> None:
    target = parse_target("/bucket/key?acl", "h", ())
    fields = [("Authorization", "OSS" + text(data)), ("x-oss-date", "20270115T080000Z"), ("Host", "h"), ("range", "r")]
    verified(target, CIMultiDictProxy(CIMultiDict(fields)))


def an_oss_request(data: bytes) -> None:
    """A signed URL and the headers behind it, up to where it is one of S3."""
    line, _, rest = data.partition(b"\n")
    target, fields = parse_target(text(b"/bucket/key?" + line), "h", ()), headers(rest)
    speaks_oss(target, fields)
    with suppress(S3Error):
        verified(target, fields)
    asked = to_s3_request("GET", target, fields)
    classify("GET", asked.target, asked.headers)


def verified(target: Target, fields: "CIMultiDictProxy[str]") -> None:
    """Nobody is let in: the fuzzer has not the secret."""
    claim = read_claim(target, fields)
    if isinstance(claim, ClaimOssV1 | ClaimOssV2 | ClaimOssV4):
        secret = SecretKey(claim.access_key, "never to be found")
        verify_oss(claim, "GET", target, fields, secret, 1_800_000_000.0)
        raise AssertionError("let in")


def a_range(data: bytes) -> None:
    resolve(parse_range(text(data)), 1000)


def conditions(data: bytes) -> None:
    evaluate_conditions(headers(data), '"etag"', "Wed, 21 Oct 2015 07:28:00 GMT")


def xml(data: bytes) -> None:
    embedded_error(data)
    for read in (listed_keys, uploaded_parts):
        try:
            read(data)
        except S3Error:
            continue


def aws_chunked(data: bytes) -> None:
    decoder = AwsChunkedDecoder(ChunkedMode.UNSIGNED_TRAILER, 1000, "x-amz-checksum-crc32", None)
    half = len(data) // 2
    decoder.feed(data[:half])
    decoder.feed(data[half:])
    decoder.close()


def a_form(data: bytes) -> None:
    boundary_of(text(data))
    form = FormReader("b")
    form.feed(b"--b\r\n" + data)


def a_policy(data: bytes) -> None:
    read_policy(base64.b64encode(data).decode())


def a_head(data: bytes) -> None:
    parse_request_head(data + b"\r\n\r\n")


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    target.__name__: target
    for target in (
        a_form,
        a_head,
        a_policy,
        a_range,
        a_request,
        an_authorization,
        an_oss_authorization,
        an_oss_request,
        aws_chunked,
        conditions,
        xml,
    )
}


def main(arguments: list[str]) -> None:
    target = TARGETS[arguments[1]]

    def fuzz_one(data: bytes) -> None:
        try:
            target(data)
        except S3Error:
            return

    setup: Any = atheris.Setup
    setup([arguments[0], *arguments[2:]], fuzz_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
