"""The request signer: heads whose templates are kept are those that each request would get by itself."""

from forebay.core.heads import HeaderPairs
from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.endpoint import parse_endpoint
from forebay.origin.http.outgoing_head import outgoing_head
from forebay.origin.origin_request import UNSIGNED, OriginRequest
from forebay.origin.request_signer import RequestSigner
from forebay.protocol.signatures.signing_key import SecretKey

ENDPOINT = parse_endpoint("http://origin.test:9000", DIALECTS["minio"])
OWN, OTHER = SecretKey("AK", "secret"), SecretKey("AK", "another", "token")
RANGE = ("Range", "bytes=0-1048575")
KEYS = ["key", "a b", "a//b", "../x", "100%", "%2F", "é/ü", "x+y=z&?#", "\u4e2d", "~tilde", "a:b*c", " "]
HEADERS: list[HeaderPairs] = [
    (),
    (RANGE,),
    (RANGE, ("x-amz-checksum-mode", "ENABLED")),
    (("If-Match", '"e"'), ("range", " bytes=5-  9 "), ("Host", "other"), ("X-Custom", "1")),
]


class Clock:
    now = 1_700_000_000.25

    def __call__(self) -> float:
        return self.now


def signer(clock: Clock, secret: SecretKey | None = OWN, *, speaks_oss: bool = False) -> RequestSigner:
    return RequestSigner(StaticCredentials(secret), "eu-west-1", clock, "forebay", speaks_oss=speaks_oss)


async def check(kept: RequestSigner, clock: Clock, request: OriginRequest, region: str | None = None) -> bytes:
    """The head by `kept`, which must be that of a signer without a past, made from its separate headers."""
    url = ENDPOINT.url_of(request.bucket, request.key, request.query)
    fresh = RequestSigner(kept.credentials, "eu-west-1", clock, "forebay", speaks_oss=kept.speaks_oss)
    expected = outgoing_head(request.method, url, await fresh.headers(request, url, region))
    head = await kept.head(request, url, region)
    assert head == expected
    return head


async def test_kept_templates_give_what_each_request_would_get() -> None:
    clock = Clock()
    kept, heads = signer(clock), set[bytes]()
    for _ in range(2):
        for headers in HEADERS:
            for method in ("GET", "HEAD"):
                for bucket in ("bucket", "other"):
                    for key in KEYS:
                        request = OriginRequest(method, bucket, key, headers=headers)
                        heads.add(await check(kept, clock, request))
    assert len(heads) == len(HEADERS) * 2 * 2 * len(KEYS)
    await check(kept, clock, OriginRequest("GET", "bucket", "key", (("versionId", "a b"),)))
    await check(kept, clock, OriginRequest("GET", "bucket", None, (("list-type", "2"), ("prefix", "x/"))))
    await check(kept, clock, OriginRequest("GET"))


async def test_time_and_credential_and_region_are_part_of_a_head() -> None:
    clock = Clock()
    kept, heads = signer(clock), set[bytes]()
    request = OriginRequest("GET", "bucket", "key", headers=(RANGE,))
    for seconds in (0.0, 0.5, 0.5, 86_400.0, -86_401.5):
        clock.now += seconds
        heads.add(await check(kept, clock, request))
    assert len(heads) == 4, "one for each second: half a second later it was the same"
    heads.add(await check(kept, clock, OriginRequest("GET", "bucket", "key", headers=(RANGE,), credential=OTHER)))
    heads.add(await check(kept, clock, OriginRequest("GET", "bucket", "key", headers=(RANGE,), credential=UNSIGNED)))
    heads.add(await check(kept, clock, request, "us-east-2"))
    kept.credentials = StaticCredentials(SecretKey("AK", "renewed"))
    heads.add(await check(kept, clock, request))
    assert len(heads) == 8


async def test_many_different_heads_in_one_second_are_right() -> None:
    clock = Clock()
    kept = signer(clock)
    for _ in range(2):
        for number in range(200):
            await check(kept, clock, OriginRequest("GET", "bucket", "key", headers=(("Range", f"bytes={number}-"),)))


async def test_without_a_credential_nothing_is_signed() -> None:
    clock = Clock()
    head = await check(signer(clock, None), clock, OriginRequest("GET", "bucket", "key", headers=(RANGE,)))
    assert b"authorization" not in head.lower()


async def test_one_request_for_all_objects_is_signed_for_each_url() -> None:
    clock = Clock()
    kept, secret, heads = signer(clock), SecretKey("AK", "secret"), set[bytes]()
    request, other = OriginRequest("GET", headers=(RANGE,)), OriginRequest("GET")
    for seconds in (0.0, 0.0, 1.0):
        clock.now += seconds
        for each, key, its_secret, region in (
            (request, "a", secret, None),
            (request, "b", secret, None),
            (request, "a", OTHER, None),
            (request, "a", secret, "us-east-2"),
            (other, "a", secret, None),
        ):
            url = ENDPOINT.url_of("bucket", key, ())
            expected = signer(clock).signed_head(each, url, its_secret, region)
            assert kept.signed_head(each, url, its_secret, region) == expected
            heads.add(expected)
    assert len(heads) == 10
