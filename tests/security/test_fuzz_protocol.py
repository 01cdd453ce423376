"""Fuzz: everything that reads what a stranger wrote. It answers, or refuses with an S3Error; nothing else comes out.

The pieces are those that the readers look for, shuffled: random bytes alone would never get past the first look.
`make fuzz` makes many times as many cases.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.core.s3_codes import S3_CODES
from forebay.policy.access import authorise
from forebay.protocol.body.aws_chunked_decoder import AwsChunkedDecoder
from forebay.protocol.body.chunk_signatures import ChunkedMode, ChunkSignatureChain
from forebay.protocol.body.payload import PayloadReader, payload_form
from forebay.protocol.conditions import evaluate_conditions, range_applies
from forebay.protocol.copy_source import encode_copy_source, parse_copy_source
from forebay.protocol.forwarded_headers import forwarded_headers, forwarded_query
from forebay.protocol.operations import classify
from forebay.protocol.oss.oss_request import to_s3_request
from forebay.protocol.range_header import Unsatisfiable, parse_range, resolve
from forebay.protocol.signatures.dialect_detection import speaks_oss
from forebay.protocol.signatures.signing_key import Scope
from forebay.protocol.target import parse_target
from forebay.protocol.xml.s3_documents import (
    embedded_error,
    error_document,
    listed_keys,
    result_etag,
    upload_id,
)
from forebay.request.authentication import authenticate
from harness.uploaded_parts import uploaded_parts
from security.keyrings import NOW, OWNER, keyring
from security.scale import fuzzed
from security.strategies import HEADERS, OSS_HEADERS, OSS_TARGETS, TARGETS, TEXTS

_SCOPE: Final = Scope("20270115", "us-east-1", "s3")


@contextlib.contextmanager
def only_refused() -> Iterator[None]:
    """S3Error, with a code that S3 has and no 500; nothing else."""
    refusal: S3Error | None = None
    try:
        yield
    except S3Error as error:
        refusal = error
    if refusal is not None:
        assert refusal.code in S3_CODES
        assert refusal.status != 500
        document = error_document(refusal, request_id="R", host_id="H")
        assert document.startswith(b"<?xml")


@given(st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "get", "")), TARGETS, HEADERS)
@fuzzed(600)
def test_the_way_of_a_request(method: str, raw: str, headers: CIMultiDictProxy[str]) -> None:
    """Every step up to the origin, as the gateway takes them, whether or not the one before refused."""
    with only_refused():
        target = parse_target(raw, headers.get("Host", ""), ("h.test",))
        let_in: list[object] = []
        with only_refused():
            let_in.append(authenticate(keyring(), method, target, headers, NOW))
        assert not let_in
        with only_refused():
            operation = classify(method, target, headers)
            source = parse_copy_source(headers)
            if source is not None:
                again = parse_copy_source(CIMultiDict([("x-amz-copy-source", encode_copy_source(source))]))
                assert again == source
            permit = authorise(
                keyring().principals[OWNER.access],
                operation,
                target,
                source=source.name if source is not None else None,
            )
            assert permit.operation == operation.name
        with only_refused():
            assert all(
                "\r" not in value and "\n" not in value for name, value in forwarded_headers(headers) if name == "x"
            )
            forwarded_query(target.query)
        with only_refused():
            form = payload_form(headers, None)
            reader = PayloadReader(form, None, headers)
            reader.feed(b"hello")
            reader.close()


@given(
    st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH")),
    st.one_of(TARGETS, OSS_TARGETS, OSS_TARGETS),
    OSS_HEADERS,
)
@fuzzed(600)
def test_the_way_of_a_request_of_oss(method: str, raw: str, headers: CIMultiDictProxy[str]) -> None:
    """Up to where it is one of S3, whether or not the gate let it in."""
    with only_refused():
        target = parse_target(raw, "h", ("h.test",), {"c.test": "bucket"})
        speaks_oss(target, headers)
        let_in: list[object] = []
        with only_refused():
            let_in.append(authenticate(keyring(), method, target, headers, NOW))
        assert not let_in
        asked = to_s3_request(method, target, headers)
        assert not any(name.lower().startswith("x-oss-") for name in asked.headers)
        classify(method, asked.target, asked.headers)
        parse_copy_source(asked.headers)


@given(
    st.one_of(TEXTS, st.text("bytes=0123456789-, \tBYTES", max_size=30), st.just("bytes=" + "9" * 5000 + "-")),
    st.integers(0, 2**40),
)
@fuzzed(400)
def test_ranges(value: str, size: int) -> None:
    found = resolve(parse_range(value), size)
    if not isinstance(found, Unsatisfiable):
        assert 0 <= found.start <= found.stop <= size


@given(HEADERS, st.sampled_from(('"e"', 'W/"e"', '""')), st.sampled_from(("", "x", "Wed, 18 Nov 2026 10:00:00 GMT")))
@fuzzed(300)
def test_conditions(headers: CIMultiDictProxy[str], etag: str, modified: str) -> None:
    evaluate_conditions(headers, etag, modified)
    range_applies(headers.get("If-Range"), etag, modified)


_xml: Final = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            (
                *(
                    b"<Delete>",
                    b"</Delete>",
                    b"<Object>",
                    b"</Object>",
                    b"<Key>",
                    b"</Key>",
                    b"<Quiet>true</Quiet>",
                    b"k",
                    b"&amp;",
                    b"<a/>",
                ),
                *(
                    b"<CompleteMultipartUpload>",
                    b"</CompleteMultipartUpload>",
                    b"<Part>",
                    b"</Part>",
                    b"<PartNumber>",
                    b"</PartNumber>",
                    b"1",
                ),
                *(
                    b"<ETag>",
                    b"</ETag>",
                    b"<Error>",
                    b"</Error>",
                    b"<Code>",
                    b"</Code>",
                    b"<?xml version='1.0'?>",
                    b"<!DOCTYPE a>",
                    b"<!--x-->",
                ),
                *(
                    b"<!ENTITY a 'b'>",
                    b"&a;",
                    b"&#0;",
                    b"<![CDATA[",
                    b"]]>",
                    b"\xff",
                    b"\x00",
                    b" ",
                    b"<x:y xmlns:x='z'/>",
                    b"<?p?>",
                ),
            )
        ),
        max_size=25,
    ).map(b"".join),
)


@given(_xml)
@fuzzed(600)
def test_documents(body: bytes) -> None:
    for read in (listed_keys, uploaded_parts):
        with only_refused():
            read(body)
    for answered in (result_etag, upload_id, embedded_error):
        answered(body)


_chunks: Final = st.lists(
    st.sampled_from(
        (
            *(
                b"5",
                b"0",
                b"a",
                b"FFFF",
                b"\r\n",
                b"\n",
                b"\r",
                b"hello",
                b";chunk-signature=",
                b"0" * 64,
                b";",
                b"=",
                b" ",
                b"-1",
                b"x",
            ),
            *(
                b"x-amz-checksum-crc32:",
                b"AAAAAA==",
                b"x-amz-trailer-signature:",
                b"5\r\nhello\r\n",
                b"0\r\n",
                b"\x00",
                b"a" * 1100,
            ),
        )
    ),
    max_size=20,
)


@pytest.mark.parametrize("mode", ChunkedMode)
@pytest.mark.parametrize("chained", [True, False])
def test_chunked_bodies(mode: ChunkedMode, chained: bool) -> None:
    """In whatever pieces: what comes out is no longer than was announced, and nothing is right by chance."""
    chain = ChunkSignatureChain(b"k" * 32, "20270115T080000Z", _SCOPE, "0" * 64) if chained else None

    @given(_chunks, st.sampled_from((0, 1, 5, 10, 65535)))
    @fuzzed(150)
    def example(pieces: list[bytes], length: int) -> None:
        decoder = AwsChunkedDecoder(mode, length, "x-amz-checksum-crc32" if mode.has_trailer else None, chain)
        out = 0
        ended = False
        with only_refused():
            for piece in pieces:
                out += sum(len(each) for each in decoder.feed(piece))
                assert out <= length
            decoder.close()
            ended = True
        if ended:
            assert out == length
            assert not (mode.is_signed and chained)
        else:
            refuses: Callable[[], object] = decoder.close
            with pytest.raises(S3Error):
                refuses()

    example()
