"""What a stranger could write where a request is expected: the pieces that readers look for, in every order.

Random bytes alone would never get past the first look. Used by the fuzz tests.
"""

from typing import Final

from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.protocol.body.chunk_signatures import ChunkedMode
from security.required_grants import SAMPLES

NAMES: Final = sorted(
    {name for sample in SAMPLES for name in sample.target.partition("?")[2].replace("=", "&").split("&")}
)
TEXTS: Final = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=12)
VALUES: Final = st.one_of(
    TEXTS,
    st.sampled_from(("", "0", "1", "null", "-1", "a" * 2000, "%00", "/", "..", "\u0661", "9" * 30, "é", "\udc80")),
)
QUERIES: Final = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(
                (*NAMES, "versionId", "prefix", "x-id", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Algorithm")
            ),
            st.sampled_from(
                ("X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "AWSAccessKeyId", "Expires", "Signature")
            ),
            st.sampled_from(("x-amz-acl", "X-Amz-Security-Token", "response-content-type", "x-amz-copy-source")),
            st.sampled_from(
                (
                    *("OSSAccessKeyId", "x-oss-signature-version", "x-oss-signature", "x-oss-credential", "x-oss-date"),
                    *("x-oss-expires", "x-oss-access-key-id", "x-oss-additional-headers", "security-token"),
                    *("x-oss-security-token", "x-oss-process", "objectMeta", "encoding-type"),
                )
            ),
            TEXTS,
        ),
        st.sampled_from(("=", "", "==", "%3D")),
        VALUES,
    ).map("".join),
    max_size=8,
).map("&".join)
TARGETS: Final = st.builds(
    lambda path, query: f"/{path}?{query}" if query else f"/{path}",
    st.lists(
        st.sampled_from(("bucket", "/", "//", "..", "%2F", "%", "%00", "%C3%A9", "%ff", "key", "+", "#", "é", "\\")),
        max_size=7,
    ).map("".join),
    QUERIES,
)
# A whole way of signing each, or all but the one that is left out: by chance alone they hardly come together.
_OSS_URLS: Final = (
    ("OSSAccessKeyId=owner%2Fkey", "Expires=1800003600", "Signature=AAAA"),
    ("x-oss-signature-version=OSS2", "x-oss-access-key-id=guest", "x-oss-expires=1800003600", "x-oss-signature=AAAA"),
    (
        "x-oss-signature-version=OSS4-HMAC-SHA256",
        "x-oss-credential=guest%2F20270115%2Fcn-hangzhou%2Foss%2Faliyun_v4_request",
        "x-oss-date=20270115T080000Z",
        "x-oss-expires=600",
        "x-oss-signature=00",
    ),
)
OSS_TARGETS: Final = st.builds(
    lambda url, left, more: "/bucket/key?" + "&".join([pair for pair in url if pair != left] + [more]),
    st.sampled_from(_OSS_URLS),
    st.sampled_from([None, *(pair for url in _OSS_URLS for pair in url)]),
    QUERIES,
)
OSS_CREDENTIALS: Final = st.lists(
    st.sampled_from(
        (
            *("OSS ", "OSS2 ", "OSS4-HMAC-SHA256 ", "AccessKeyId:", "AdditionalHeaders:", "Signature:", "Credential="),
            *("AdditionalHeaders=", "Signature=", "owner/key", "guest", "AAAA=", "0" * 64, "host", "host;range", "é"),
            *("/20270115/cn-hangzhou/oss/aliyun_v4_request", ", ", ",", "=", ":", ";", " ", "/", "\t", "a" * 300),
            "OSS4-HMAC-SHA256 Credential=guest/20270115/cn-hangzhou/oss/aliyun_v4_request,Signature=00",
            *("OSS2 AccessKeyId:guest,AdditionalHeaders:host,Signature:AAAA", "OSS guest:AAAA"),
        )
    ),
    max_size=8,
).map("".join)
OSS_HEADERS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("Authorization"), OSS_CREDENTIALS),
        st.tuples(
            st.sampled_from(("x-oss-date", "Date")),
            st.sampled_from(("20270115T080000Z", "Fri, 15 Jan 2027 08:00:00 GMT", "Fri, 15 Jan 127 08:00:00 GMT", "x")),
        ),
        st.tuples(
            st.sampled_from(
                (
                    *("x-oss-content-sha256", "x-oss-security-token", "security-token", "x-oss-meta-a", "X-Oss-Acl"),
                    *("x-oss-copy-source", "x-oss-range-behavior", "Range", "Content-Type", "Content-MD5", "x-amz-acl"),
                )
            ),
            st.one_of(VALUES, st.sampled_from(("UNSIGNED-PAYLOAD", "guest-token", "standard", "bytes=0-1", "/b/k"))),
        ),
    ),
    max_size=6,
).map(lambda pairs: CIMultiDictProxy(CIMultiDict([("Host", "h"), *pairs])))
CREDENTIALS: Final = st.lists(
    st.sampled_from(
        (
            *(
                "AWS4-HMAC-SHA256 ",
                "AWS ",
                "Credential=",
                "SignedHeaders=",
                "Signature=",
                "owner/key",
                "/20270115/us-east-1/s3/aws4_request",
            ),
            *(
                ", ",
                ",",
                "=",
                ";",
                "host",
                "host;x-amz-date",
                "0" * 64,
                ":",
                " ",
                "/",
                "AAAA=",
                "\t",
                "é",
                "x-amz-date",
                "a" * 300,
            ),
        )
    ),
    max_size=12,
).map("".join)
HEADERS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("Authorization"), CREDENTIALS),
        st.tuples(
            st.just("x-amz-date"),
            st.sampled_from(("20270115T080000Z", "20270115T080000", "99999999T999999Z", "x", "20270230T000000Z")),
        ),
        st.tuples(
            st.just("Date"),
            st.sampled_from(("Fri, 15 Jan 2027 08:00:00 GMT", "Fri", "0", "x", "Mon, 99 Jan 99999 99:99:99 +9999")),
        ),
        st.tuples(
            st.sampled_from(
                (
                    *(
                        "x-amz-content-sha256",
                        "x-amz-decoded-content-length",
                        "x-amz-trailer",
                        "Content-Length",
                        "Content-Encoding",
                    ),
                    *(
                        "Content-MD5",
                        "x-amz-checksum-crc32",
                        "x-amz-checksum-algorithm",
                        "x-amz-copy-source",
                        "Range",
                        "If-Match",
                    ),
                    *(
                        "If-None-Match",
                        "If-Modified-Since",
                        "If-Unmodified-Since",
                        "If-Range",
                        "Cache-Control",
                        "Connection",
                    ),
                    *("Transfer-Encoding", "x-amz-security-token", "Content-Type", "x-amz-meta-a", "Host", "Expect"),
                )
            ),
            st.one_of(
                VALUES,
                st.sampled_from(
                    (
                        *(
                            "UNSIGNED-PAYLOAD",
                            *(mode.value for mode in ChunkedMode),
                            "0" * 64,
                            "aws-chunked",
                            "chunked",
                            "bytes=0-1",
                            "*",
                        ),
                        *(
                            '"e"',
                            'W/"e"',
                            '"a", "b"',
                            "x-amz-checksum-crc32",
                            "crc32",
                            "no-cache",
                            "AAAA",
                            "bucket/key?versionId=1",
                        ),
                        *(
                            "multipart/form-data; boundary=b",
                            "Wed, 18 Nov 2026 10:00:00 GMT",
                            "multipart/form-data",
                            "arn:aws:s3:::a/b",
                        ),
                    )
                ),
            ),
        ),
        st.tuples(st.text("abcxyz-", min_size=1, max_size=8), VALUES),
    ),
    max_size=8,
).map(lambda pairs: CIMultiDictProxy(CIMultiDict([("Host", "h"), *pairs])))
