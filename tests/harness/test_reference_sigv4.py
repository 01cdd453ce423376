"""The reference signer against the examples of AWS's documents, and against botocore.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html and .../sigv4-streaming.html
"""

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest, HTTPHeaders
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference_sigv4 import EMPTY_SHA256, SIGNED_CHUNKS, UNSIGNED, Secret, chunk_signature, request_signature

SECRET = Secret("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
TIMESTAMP = "20130524T000000Z"
HOST = "examplebucket.s3.amazonaws.com"


def signature(method: str, path: str, query: str, pairs: list[tuple[str, str]]) -> str:
    return request_signature(
        SECRET,
        TIMESTAMP,
        method=method,
        raw_path=path,
        raw_query=query,
        headers=pairs,
        signed=frozenset(name.lower() for name, _ in pairs),
    )


def test_get_object() -> None:
    pairs = [("Host", HOST), ("Range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY_SHA256), ("x-amz-date", TIMESTAMP)]
    expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    assert signature("GET", "/test.txt", "", pairs) == expected


def test_list_objects() -> None:
    pairs = [("Host", HOST), ("x-amz-content-sha256", EMPTY_SHA256), ("x-amz-date", TIMESTAMP)]
    expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    assert signature("GET", "/", "max-keys=2&prefix=J", pairs) == expected


def test_presigned_get() -> None:
    query = (
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
        f"aws4_request&X-Amz-Date={TIMESTAMP}&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    )
    expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    assert signature("GET", "/test.txt", query, [("Host", HOST)]) == expected


def test_chunks() -> None:
    pairs = [
        ("Host", "s3.amazonaws.com"),
        ("x-amz-date", TIMESTAMP),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("x-amz-content-sha256", SIGNED_CHUNKS),
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("Content-Length", "66824"),
    ]
    seed = signature("PUT", "/examplebucket/chunkObject.txt", "", pairs)
    assert seed == "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    first = chunk_signature(SECRET, TIMESTAMP, seed, b"a" * 65536)
    assert first == "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
    second = chunk_signature(SECRET, TIMESTAMP, first, b"a" * 1024)
    assert second == "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
    last = chunk_signature(SECRET, TIMESTAMP, second, b"")
    assert last == "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"


class _Botocore(S3SigV4Auth):
    """Signs the named headers and no others; botocore by itself would choose them."""

    def __init__(self, secret: Secret, names: frozenset[str]) -> None:
        super().__init__(Credentials(secret.access, secret.secret), "s3", secret.region)
        self._names = names

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        chosen = HTTPHeaders()
        for name, value in request.headers.items():
            if name.lower() in self._names:
                chosen[name.lower()] = value
        return chosen

    def payload(self, request: AWSRequest) -> str:
        return UNSIGNED


PRINTED = st.characters(min_codepoint=0x20, max_codepoint=0x17F, exclude_characters="#?\x7f\x85\xa0")
TEXTS = st.text(PRINTED, max_size=8)
NAMES = st.sampled_from(
    ["Host", "x-amz-date", "X-Amz-Date", "x-amz-content-sha256", "X-Amz-Content-SHA256", "Range", "x-amz-meta-a"]
)
QUERIES = st.lists(st.text(st.sampled_from("aAb=%2F&~+-"), max_size=8), max_size=4).map("&".join)


@given(
    st.builds(Secret, TEXTS, TEXTS, st.sampled_from(["us-east-1", "eu-west-2"])),
    st.sampled_from([TIMESTAMP, "20261129T235959Z"]),
    st.sampled_from(["GET", "put", "DELETE"]),
    TEXTS.map("/{}".format),
    QUERIES,
    st.lists(st.tuples(NAMES, TEXTS), max_size=6),
    st.frozensets(NAMES.map(str.lower)),
)
@settings(max_examples=300)
def test_a_signature_is_botocores(
    secret: Secret,
    timestamp: str,
    method: str,
    path: str,
    query: str,
    pairs: list[tuple[str, str]],
    signed: frozenset[str],
) -> None:
    signer = _Botocore(secret, signed)
    request = AWSRequest(method=method, url=f"http://signed{path}{'?' if query else ''}{query}")
    for name, value in pairs:
        request.headers[name] = value
    request.context["timestamp"] = timestamp
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    ours = request_signature(
        secret, timestamp, method=method, raw_path=path, raw_query=query, headers=pairs, signed=signed
    )
    assert ours == expected
