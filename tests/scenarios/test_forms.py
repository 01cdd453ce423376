"""Form uploads over a socket: those boto3 prepares, both signatures, what the policy allows and what it does not."""

import asyncio
import base64
import hmac
from pathlib import Path

import pytest

from harness.clients import RawRequest, path_of
from harness.fake.checksums import digest_of
from harness.fake_origin import FakeOrigin
from harness.form_uploads import ANY, BOUNDARY, form, policy_of, post, signed_v2
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
WARM = '[[rules]]\npath = "**"\nfreshness = "immutable"\nwarm_on_write = true\n'
MIB = 1 << 20


async def prepared(rig: Rig, key: str, secret: Secret = TRAINER, *, version: str = "s3v4") -> dict[str, str]:
    client = rig.boto3(secret, signature_version=version)
    found = await asyncio.to_thread(client.generate_presigned_post, "bucket", key)
    client.close()
    assert found["url"] == f"{rig.endpoint}/bucket"
    return dict(found["fields"])


@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize("size", [0, 1, 1000, MIB, 3 * MIB])
async def test_forms_prepared_by_boto3_are_accepted(tmp_path: Path, version: str, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "a b/ü", b"old")
        client = rig.client()
        await client.request("GET", "/bucket/a%20b/%C3%BC")
        file = b"\r\n--boundary\r\n" * (size // 14) + b"x" * (size % 14)
        answer = await post(client, form(await prepared(rig, "a b/ü", version=version), file))
        assert (answer.status, answer.body, answer.headers["Location"]) == (204, b"", "/bucket/a%20b/%C3%BC")
        assert answer.headers["ETag"] == origin.store.get("bucket", "a b/ü").etag
        assert (await client.request("GET", "/bucket/a%20b/%C3%BC")).body == file


async def test_a_form_is_warm_when_it_is_answered(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        await post(rig.client(), form(await prepared(rig, "key"), b"content"))
        await rig.wait_idle()
        answer = await rig.client().request("GET", "/bucket/key")
        assert (answer.body, answer.headers["x-forebay-cache"]) == (b"content", "hit-memory")


async def test_fields_become_headers_and_answers(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        fields = {
            "key": "up/${filename}", "acl": "private", "Content-Type": "image/x", "x-amz-meta-Colour": "blue",
            "x-ignore-this": "x",
        }  # fmt: skip
        conditions = [
            *ANY, {"ACL": "private"}, ["starts-with", "$Content-Type", "image/"], ["eq", "$x-amz-meta-colour", "blue"],
        ]  # fmt: skip
        client = rig.client()
        for wish, status, told in (
            ({"success_action_status": "200"}, 200, b""),
            ({"success_action_status": "201"}, 201, b"<Key>up/a&amp;b.txt</Key>"),
            ({"success_action_status": "404"}, 204, b""),
            ({"success_action_redirect": "http://site/done?a=1"}, 303, b""),
            ({"success_action_redirect": "http://"}, 204, b""),
        ):
            wished = [["starts-with", f"${name}", ""] for name in wish]
            body = form(signed_v2(TRAINER, [*conditions, *wished], {**fields, **wish}), b"image", "C:\\x\\a&b.txt")
            answer = await post(client, body)
            assert (answer.status, told in answer.body, bool(answer.body)) == (status, True, bool(told))
            if status == 303:
                etag = origin.store.get("bucket", "up/a&b.txt").etag.strip('"')
                location = f"http://site/done?a=1&bucket=bucket&key=up%2Fa%26b.txt&etag=%22{etag}%22"
                assert answer.headers["Location"] == location
        version = origin.store.get("bucket", "up/a&b.txt")
        assert dict(version.headers) == {"content-type": "image/x", "x-amz-meta-colour": "blue"}


async def test_tags_in_a_form_are_those_of_the_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        document = "<Tagging><TagSet><Tag><Key>a b</Key><Value>c&amp;d</Value></Tag></TagSet></Tagging>"
        conditions = [*ANY, ["starts-with", "$tagging", ""]]
        for tagging, status in ((document, 204), ("<Tagging>", 400)):
            body = form(signed_v2(TRAINER, conditions, {"key": "up/tagged", "tagging": tagging}), b"image")
            assert (await post(rig.client(), body)).status == status
        assert origin.store.get("bucket", "up/tagged").tags == (("a b", "c&d"),)
        refused = form(signed_v2(TRAINER, ANY, {"key": "up/tagged", "tagging": document}), b"image")
        assert (await post(rig.client(), refused)).status == 403  # not a field that the policy covers


@pytest.mark.parametrize("key", ["foo.txt", "\\$foo.txt"])
async def test_a_form_as_pythons_requests_sends_it(tmp_path: Path, key: str) -> None:
    """As Ceph's s3-tests post: every field has a file name, names and operators are of any case."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        conditions = [
            {"bUcKeT": "bucket"},
            ["StArTs-WiTh", "$KeY", key[:3]],
            {"AcL": "private"},
            ["StArTs-WiTh", "$CoNtEnT-TyPe", "text/plain"],
            ["content-length-range", 0, 1024],
        ]
        policy = policy_of(conditions)
        digest = base64.b64encode(hmac.digest(TRAINER.secret.encode(), policy.encode(), "sha1")).decode()
        fields = {"kEy": key, "AWSAccessKeyId": TRAINER.access, "aCl": "private", "signature": digest}
        fields |= {"pOLICy": policy, "Content-Type": "text/plain", "x-ignore-foo": "bar", "file": "bar"}
        body = "".join(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        )
        answer = await post(rig.client(), f"{body}--{BOUNDARY}--\r\n".encode())
        assert (answer.status, answer.body) == (204, b"")
        read = await rig.client().request("GET", path_of("bucket", key))
        assert (read.body, read.headers["Content-Type"]) == (b"bar", "text/plain")


SIZES = ["content-length-range", 3, 7]


@pytest.mark.parametrize(
    ("conditions", "fields", "status", "code"),
    [
        ([*ANY, SIZES], {}, 204, ""),
        ([*ANY, ["content-length-range", 0, 6]], {}, 400, "EntityTooLarge"),
        ([*ANY, ["content-length-range", 8, 9]], {}, 400, "EntityTooSmall"),
        ([*ANY, ["content-length-range", -1, 9]], {}, 400, "InvalidPolicyDocument"),
        ([*ANY, ["content-length-range", 0]], {}, 400, "InvalidPolicyDocument"),
        ([["starts-with", "$key", ""]], {}, 403, "AccessDenied"),
        ([{"bucket": "other"}, ["starts-with", "$key", ""]], {}, 403, "AccessDenied"),
        ([{"bucket": "bucket"}], {}, 403, "AccessDenied"),
        ([{"bucket": "bucket"}, {"key": "other"}], {}, 403, "AccessDenied"),
        ([{"bucket": "bucket"}, ["starts-with", "$key", "other"]], {}, 403, "AccessDenied"),
        (ANY, {"x-amz-checksum-crc32": digest_of("crc32", b"content")}, 204, ""),
        (ANY, {"x-amz-checksum-crc32": digest_of("crc32", b"other")}, 400, "BadDigest"),
        (ANY, {"x-amz-checksum-crc32": "sailor"}, 400, "InvalidRequest"),
        (ANY, {"acl": "public-read"}, 403, "AccessDenied"),
        ([*ANY, {"acl": "private"}], {}, 403, "AccessDenied"),
        ([*ANY, ["matches", "$acl", ".*"]], {}, 400, "InvalidPolicyDocument"),
        ([*ANY, {}], {}, 400, "InvalidPolicyDocument"),
        ([*ANY, ["starts-with", "$x-amz-copy-source", ""]], {"x-amz-copy-source": "bucket/x"}, 400, "InvalidArgument"),
        ([*ANY, ["starts-with", "$x-amz-meta-a", ""]], {"x-amz-meta-a": "b\r\nx: y"}, 400, "InvalidArgument"),
    ],
)
async def test_form_outside_its_policy_is_refused(
    tmp_path: Path, conditions: list[object], fields: dict[str, str], status: int, code: str
) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        answer = await post(rig.client(), form(signed_v2(TRAINER, conditions, {"key": "key", **fields}), b"content"))
        assert (answer.status, f"<Code>{code}</Code>".encode() in answer.body) == (status, bool(code))
        assert origin.log.count("PUT") == (status == 204)


async def test_a_form_makes_none_of_forebays_own_resources(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        answer = await post(rig.client(), form(signed_v2(TRAINER, ANY, {"key": ".forebay/plans/a"}), b"key"))
        assert (answer.status, b"<Code>NotImplemented</Code>" in answer.body) == (501, True)
        assert origin.log.count(key=".forebay/plans/a") == 0


async def test_nobody_gets_in_by_a_form(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client, four = rig.client(), await prepared(rig, "key")
        two = signed_v2(TRAINER, ANY, {"key": "key"})
        other = policy_of(ANY)
        cases: list[tuple[dict[str, str], int]] = [
            ({"key": "key"}, 403),
            ({"key": "key", "policy": two["policy"]}, 400),
            (signed_v2(TRAINER, ANY, {"key": "key"}, -1), 403),
            (signed_v2(Secret("trainer", "wrong"), ANY, {"key": "key"}), 403),
            (signed_v2(Secret("nobody", "x"), ANY, {"key": "key"}), 403),
            (signed_v2(READER, ANY, {"key": "key"}), 403),
            (two | {"policy": other[:-4] + "AAAA"}, 403),
            (two | {"policy": policy_of([*ANY, ["starts-with", "$acl", ""]])}, 403),
            (two | four, 400),
            (four | {"key": "other"}, 403),
            (four | {"x-amz-signature": "0" * 64}, 403),
            (four | {"x-amz-credential": four["x-amz-credential"].replace("trainer", "reader")}, 403),
            (four | {"x-amz-date": "19700101T000000Z"}, 400),
            ({name: value for name, value in four.items() if name != "policy"}, 400),
            (await prepared(rig, "key", READER), 403),
        ]
        for fields, status in cases:
            assert (await post(client, form(fields, b"new"))).status == status, fields
        signed = client.sign("POST", "/bucket", (("Content-Type", f"multipart/form-data; boundary={BOUNDARY}"),), b"")
        both = form(four, b"new")
        pairs = [pair for pair in signed.pairs if pair[0] != "Content-Length"] + [("Content-Length", str(len(both)))]
        assert (await client.send(RawRequest("POST", "/bucket", tuple(pairs), both))).status == 400
        assert origin.log.count("PUT") == 0
        assert (await client.request("GET", "/bucket/key")).body == b"old"


@pytest.mark.parametrize("size", [100, 2 * MIB])
async def test_a_form_that_is_cut_off_or_goes_on_leaves_nothing_behind(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        fields = await prepared(rig, "key")
        submit = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="submit"\r\n\r\nUpload\r\n'
        small = await post(rig.client(), form(fields, b"x" * size, after=submit))
        assert small.status == (204 if size == 100 else 400)
        whole = form(fields, b"y" * size)
        for broken in (whole[: -len(BOUNDARY)], whole[:-4], whole.replace(BOUNDARY.encode() + b"--", b"else--")):
            assert (await post(rig.client(), broken)).status == 400
        kept = b"x" * size if size == 100 else b"old"
        assert (await rig.client().request("GET", "/bucket/key")).body == kept


async def test_a_form_without_a_length_and_a_post_that_is_no_form(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        client, body = rig.client(), form(await prepared(rig, "key"), b"content")
        async with await client.open() as connection:
            head = (
                f"POST /bucket HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n{len(body):x}\r\n"
            )
            await connection.send(head.encode() + body + b"\r\n0\r\n\r\n")
            assert (await connection.answer("POST")).status == 411
        assert (await client.request("POST", "/bucket", (), b"x")).status == 412
        assert (await post(client, body, "/bucket/key")).status in {400, 403, 501}
        assert origin.log.count("PUT") + origin.log.count("POST") == 0
