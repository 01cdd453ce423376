"""Requests without a key, where `[auth.anonymous]` has grants for them: the origin is asked unsigned and decides."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from harness.clients import Pairs, path_of
from harness.fake.actions import Respond
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig
from harness.warm_orders import start_job

TARGET: Final = path_of("bucket", "open/key")
BODY: Final = b"content" * 40_000
RULES: Final = """
[[rules]]
path = "**"
freshness = "immutable"
warm_on_write = true
block = "64KiB"
"""
GRANTED: Final = """
[auth.anonymous]
grants = [{ path = "*/open/**", allow = ["read", "list", "write"] }]
"""
FORM: Final = (
    b'--boundary\r\nContent-Disposition: form-data; name="key"\r\n\r\nopen/posted\r\n'
    b'--boundary\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nposted\r\n--boundary--\r\n'
)
LANES: Final = pytest.mark.parametrize("lane", ["fast", "full"])


def rig_of(origin: FakeOrigin, directory: Path, rest: str = GRANTED, dialect: str = "swift") -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, rest=rest + RULES, dialect=dialect)


def cache_of(answer: RawAnswer) -> str:
    return answer.headers["x-forebay-cache"]


def choose_lane(rig: Rig, lane: str) -> None:
    if lane == "full":
        rig.worker.listener.reads.fast_lane = None


def under(prefix: str) -> Callable[[S3Request], bool]:
    """What a bucket is that lets anybody read these objects."""
    return lambda asked: (asked.key or "").startswith(prefix) and asked.method in {"GET", "HEAD"}


def signed(origin: FakeOrigin) -> list[bool]:
    """Of each request for an object or a bucket, whether it was signed."""
    return ["Authorization" in seen.headers for seen in origin.log.requests if seen.bucket is not None]


@LANES
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_hit_needs_the_origins_permission_for_anybody(tmp_path: Path, lane: str, method: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        choose_lane(rig, lane)
        origin.store.put("bucket", "open/key", BODY)
        assert (await rig.client().request("GET", TARGET)).body == BODY  # it is cached, for who may read it
        origin.log.reset()
        for _ in range(2):
            refused = await rig.client().unsigned(method, TARGET)
            assert refused.status == 403
            assert BODY[:10] not in refused.body
            assert "etag" not in {name.lower() for name, _ in refused.pairs}
        assert signed(origin) == [False, False]  # asked each time: a refusal is not kept
        origin.is_public = under("open/")
        first, second = [await rig.client().unsigned(method, TARGET) for _ in range(2)]
        assert (first.body, second.body) == ((BODY, BODY) if method == "GET" else (b"", b""))
        assert [cache_of(each) for each in (first, second)] == ["revalidated", "hit-memory"]
        assert signed(origin) == [False] * 3
        origin.is_public = under("nothing/")
        assert cache_of(await rig.client().unsigned(method, TARGET)) == "hit-memory"
        rig.advance_clock(61)
        assert (await rig.client().unsigned(method, TARGET)).status == 403


@LANES
async def test_miss_is_fetched_unsigned(tmp_path: Path, lane: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        choose_lane(rig, lane)
        origin.store.put("bucket", "open/key", BODY)
        origin.is_public = under("open/")
        answers = [await rig.client().unsigned("GET", TARGET, pairs) for pairs in ((), (), [("Range", "bytes=3-9")])]
        assert [cache_of(each) for each in answers] == ["miss", "hit-memory", "hit-memory"]
        assert [each.body for each in answers] == [BODY, BODY, BODY[3:10]]
        assert set(signed(origin)) == {False}


@LANES
async def test_grants_come_before_the_origins_permission(tmp_path: Path, lane: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        choose_lane(rig, lane)
        origin.is_public = lambda _: True
        origin.store.put("bucket", "closed/key", BODY)
        assert (await rig.client().request("GET", path_of("bucket", "closed/key"))).status == 200
        origin.log.reset()
        for method, target in (
            ("GET", "/bucket/closed/key"),
            ("GET", "/bucket"),
            ("GET", "/"),
            ("DELETE", "/bucket/open/key"),
            ("PUT", "/bucket/closed/key"),
        ):
            assert (await rig.client().unsigned(method, target)).status == 403, (method, target)
        assert signed(origin) == []


async def test_listing_and_writes_are_the_origins_to_decide(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        form = [("Content-Type", "multipart/form-data; boundary=boundary")]
        cases: list[tuple[str, str, Pairs, bytes]] = [
            ("PUT", TARGET, (), b"written"),
            ("GET", "/bucket?list-type=2&prefix=open/", (), b""),
            ("POST", "/bucket", form, FORM),
            ("GET", f"{TARGET}?tagging", (), b""),
        ]
        for case in cases:
            assert (await rig.client().unsigned(*case)).status == 403, case
        assert origin.store.current("bucket", "open/key") is None
        origin.is_public = lambda _: True
        for case in cases:
            assert (await rig.client().unsigned(*case)).status in {200, 204}, case
        assert set(signed(origin)) == {False}
        posted = await rig.client().unsigned("GET", "/bucket/open/posted")
        assert posted.body == b"posted"
        await rig.wait_idle()
        assert (await rig.client().unsigned("GET", TARGET)).body == b"written"


async def test_form_with_part_of_a_signature_is_not_anonymous(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        origin.is_public = lambda _: True
        for name in ("policy", "signature", "AWSAccessKeyId", "x-amz-date", "x-amz-security-token"):
            more = f'--boundary\r\nContent-Disposition: form-data; name="{name}"\r\n\r\nx\r\n'.encode()
            form = [("Content-Type", "multipart/form-data; boundary=boundary")]
            assert (await rig.client().unsigned("POST", "/bucket", form, more + FORM)).status in {400, 403}, name
        assert signed(origin) == []


async def test_bytes_with_a_checksum_behind_them_are_written_unsigned(tmp_path: Path) -> None:
    """The origin learns from a header how the body is framed; the signature usually brings it."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        origin.is_public = lambda _: True
        body = b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"
        pairs = [
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
            ("x-amz-decoded-content-length", "5"),
            ("Content-Encoding", "aws-chunked"),
        ]
        assert (await rig.client().unsigned("PUT", TARGET, pairs, body)).status == 200
        stored = origin.store.current("bucket", "open/key")
        assert stored is not None
        assert stored.size == 5


async def test_wrong_signature_is_never_taken_for_none(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "open/key", BODY)
        origin.is_public = lambda _: True
        assert (await rig.client().unsigned("GET", TARGET)).status == 200
        authorization = ("Authorization", "AWS4-HMAC-SHA256 Credential=trainer/20270115/x/s3/aws4_request")
        assert (await rig.client().unsigned("GET", TARGET, [authorization])).status == 400
        assert (await rig.client().unsigned("GET", f"{TARGET}?X-Amz-Signature=00")).status == 400
        assert (
            await rig.client().unsigned("GET", TARGET, [("Authorization", "AWS trainer:x"), ("Date", "x")])
        ).status == 403


async def test_refusal_of_an_unsigned_request_is_no_fault_of_forebay(tmp_path: Path) -> None:
    """Whatever its code: the request carries no credential that the origin could refuse."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "open/key", BODY)
        origin.faults.add(Respond(403, "SignatureDoesNotMatch"), key="open/key")
        origin.is_public = lambda _: True
        refused = await rig.client().unsigned("GET", TARGET)
        assert (refused.status, b"SignatureDoesNotMatch" in refused.body) == (403, True)
        assert rig.parts.origins.of(None).credential_check.fault is None


async def test_warm_up_does_not_open_an_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "open/key", BODY)
        await start_job(rig.parts.jobs.warm_ups, "bucket", "open/", concurrency=2)
        await rig.wait_idle()
        assert cache_of(await rig.client().request("GET", TARGET)) == "hit-memory"
        assert (await rig.client().unsigned("GET", TARGET)).status == 403


@LANES
async def test_without_the_setting_nothing_is_asked(tmp_path: Path, lane: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rest="") as rig:
        choose_lane(rig, lane)
        origin.store.put("bucket", "open/key", BODY)
        origin.is_public = lambda _: True
        assert (await rig.client().unsigned("GET", TARGET)).status == 403
        assert signed(origin) == []


async def test_grants_are_taken_back_by_a_reload(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "open/key", BODY)
        origin.is_public = under("open/")
        assert (await rig.client().unsigned("GET", TARGET)).status == 200
        (rig.directory / "forebay.toml").write_text(rig.configuration.replace(GRANTED, ""))
        await rig.worker.reload()
        assert (await rig.client().unsigned("GET", TARGET)).status == 403


@pytest.mark.parametrize("dialect", ["s3", "oss"])
async def test_client_of_oss_is_anonymous_too(tmp_path: Path, dialect: str) -> None:
    """An unsigned request speaks OSS where it has a header of OSS."""
    kind = OssOrigin if dialect == "oss" else FakeOrigin
    async with kind() as origin, rig_of(origin, tmp_path, dialect="oss" if dialect == "oss" else "swift") as rig:
        origin.store.put("bucket", "open/key", BODY)
        assert (await rig.client().request("GET", TARGET)).status == 200
        origin.log.reset()
        of_oss = [("x-oss-range-behavior", "standard")]
        assert (await rig.client().unsigned("GET", TARGET, of_oss)).status == 403
        origin.is_public = under("open/")
        answers = [await rig.client().unsigned("GET", TARGET, of_oss) for _ in range(2)]
        assert [each.body for each in answers] == [BODY, BODY]
        assert [cache_of(each) for each in answers] == ["revalidated", "hit-memory"]
        assert set(signed(origin)) == {False}
