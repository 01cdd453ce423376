"""oss2, Alibaba's Python SDK, as it is after `pip install oss2`: its own defaults, CRC64 checks on.

The three signatures that it has go on the same errand: `travel` is what the rows of the table call.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oss2

from compat.errand import LARGE, ODD, ORDER, PLAN, SMALL, Errand, equal, fetch, large_file, same, small_file

MEBIBYTE = 1 << 20


class GaveUp(Exception):
    """What a user's progress callback raises who interrupts an upload."""


def travel(make: Callable[[str, str], Any], region: str | None) -> None:
    """The errand, with the `Auth` that `make` makes of a key and its secret."""
    errand = Errand.begin(oss2.__version__)
    auth = make(errand.access, errand.secret)
    bucket = oss2.Bucket(auth, errand.endpoint, errand.bucket, region=region)
    _put(errand, bucket)
    _get(errand, bucket)
    _range(errand, bucket)
    _parts(errand, bucket)
    _resume(errand, bucket)
    _download(errand, bucket)
    _list(errand, bucket, oss2.Service(auth, errand.endpoint, region=region))
    _copy(errand, bucket)
    _delete(errand, bucket)
    _signed(errand, bucket)
    _plan(errand, bucket)
    _refused(errand, bucket, oss2.Bucket(make(errand.access, "wrong"), errand.endpoint, errand.bucket, region=region))


def travel_shortly(make: Callable[[str, str], Any]) -> None:
    """What shows the signature, and none of what is the same under any."""
    errand = Errand.begin(oss2.__version__)
    bucket = oss2.Bucket(make(errand.access, errand.secret), errand.endpoint, errand.bucket)
    _put(errand, bucket)
    _get(errand, bucket)
    _range(errand, bucket)
    _copy(errand, bucket)
    _delete(errand, bucket)
    _signed(errand, bucket)
    _refused(errand, bucket, oss2.Bucket(make(errand.access, "wrong"), errand.endpoint, errand.bucket))


def travel_to_a_cname() -> None:
    """To a host that stands for the bucket, whose name the client says in its signature alone."""
    errand = Errand.begin(oss2.__version__)
    endpoint = errand.endpoint.replace("//", "//cname.")
    auth = oss2.AuthV4(errand.access, errand.secret)
    bucket = oss2.Bucket(auth, endpoint, errand.bucket, is_cname=True, region="cn-hangzhou")
    bucket.put_object("cname/a b.bin", SMALL)
    same(bucket.get_object("cname/a b.bin").read(), SMALL)
    equal([found.key for found in oss2.ObjectIterator(bucket, prefix="cname/")], ["cname/a b.bin"])
    other = oss2.Bucket(auth, endpoint, "another", is_cname=True, region="cn-hangzhou")
    equal(failure(other.get_object, "cname/a b.bin")[:2], (403, "SignatureDoesNotMatch"))
    errand.did("cname")


def travel_with_a_token(version: str, region: str | None) -> None:
    """As the temporary credentials of the environment."""
    errand = Errand.begin(oss2.__version__)
    token = os.environ["ERRAND_TOKEN"]
    access, secret = os.environ["ERRAND_TOKEN_ACCESS"], os.environ["ERRAND_TOKEN_SECRET"]
    bucket = oss2.Bucket(
        oss2.StsAuth(access, secret, token, auth_version=version), errand.endpoint, errand.bucket, region=region
    )
    bucket.put_object("token.bin", SMALL)
    same(bucket.get_object("token.bin").read(), SMALL)
    same(fetch(bucket.sign_url("GET", "token.bin", 60)), SMALL)
    other = oss2.StsAuth(access, secret, token + "x", auth_version=version)
    equal(failure(oss2.Bucket(other, errand.endpoint, errand.bucket, region=region).get_object, "token.bin")[0], 403)
    errand.did("token")


def _plan(errand: Errand, bucket: Any) -> None:
    equal(bucket.put_object(PLAN, ORDER).headers["x-forebay-plan-entries"], "3")
    equal([found.key for found in oss2.ObjectIterator(bucket, prefix=".forebay/plans/")], [PLAN])
    equal(json.loads(bucket.get_object(PLAN).read())["state"], "running")
    equal(failure(bucket.put_object, PLAN, b"good\nbad\t9-1\n")[:2], (400, "InvalidArgument"))
    bucket.delete_object(PLAN)
    equal(failure(bucket.get_object, PLAN)[:2], (404, "NoSuchKey"))
    errand.did("plan")


def _put(errand: Errand, bucket: Any) -> None:
    answer = bucket.put_object(ODD, SMALL, headers={"Content-Type": "text/odd", "x-oss-meta-colour": "blue"})
    equal((answer.etag, answer.crc), (answer.etag.upper(), crc(SMALL)))
    bucket.put_object_from_file("small.bin", str(small_file()))
    bucket.put_object("empty", b"")
    equal(failure(bucket.put_object, "empty", b"x", headers={"x-oss-forbid-overwrite": "true"})[0], 409)
    equal(failure(bucket.put_object, "never", SMALL, headers={"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="})[0], 400)
    errand.did("put")

    bucket.put_object("streamed.bin", _pieces())
    same(bucket.get_object("streamed.bin").read(), LARGE)
    errand.did("stream")


def _get(errand: Errand, bucket: Any) -> None:
    for _ in range(2):
        found = bucket.get_object(ODD)
        same(found.read(), SMALL)
        equal(
            (found.content_type, found.headers["x-oss-meta-colour"], found.content_length),
            ("text/odd", "blue", len(SMALL)),
        )
        equal((found.client_crc, found.server_crc), (crc(SMALL), crc(SMALL)))
        same(bucket.get_object("empty").read(), b"")
    errand.again(ODD)
    bucket.get_object_to_file("small.bin", "back.bin")
    equal(Path("back.bin").stat().st_size, len(SMALL))
    equal(failure(bucket.get_object, ODD, headers={"If-None-Match": found.etag})[0], 304)
    equal(failure(bucket.get_object, ODD, headers={"If-Match": '"other"'})[1], "PreconditionFailed")
    same(bucket.get_object(ODD, headers={"If-Match": found.etag}).read(), SMALL)
    equal(failure(bucket.get_object, "never")[1], "NoSuchKey")
    errand.did("get")

    head = bucket.head_object(ODD)
    equal((head.etag, head.content_length, head.object_type), (found.etag, len(SMALL), "Normal"))
    meta = bucket.get_object_meta(ODD)
    equal((meta.etag, meta.content_length, meta.last_modified), (found.etag, len(SMALL), head.last_modified))
    equal((bucket.object_exists(ODD), bucket.object_exists("never")), (True, False))
    equal(failure(bucket.head_object, "never")[1], "NoSuchKey")
    errand.did("head")


def _range(errand: Errand, bucket: Any) -> None:
    middle = bucket.get_object("small.bin", byte_range=(1000, 1999))
    equal(middle.content_range, f"bytes 1000-1999/{len(SMALL)}")
    same(middle.read(), SMALL[1000:2000])
    same(bucket.get_object("small.bin", byte_range=(None, 7)).read(), SMALL[-7:])
    same(bucket.get_object("small.bin", byte_range=(100_000, None)).read(), SMALL[100_000:])
    # What does not lie within the object is, by OSS's default, answered with all of it; or as others do, when asked to.
    past = bucket.get_object("small.bin", byte_range=(200_000, 300_000))
    equal(past.status, 200)
    same(past.read(), SMALL)
    standard = {"x-oss-range-behavior": "standard"}
    equal(failure(bucket.get_object, "small.bin", byte_range=(200_000, 300_000), headers=standard)[1], "InvalidRange")
    same(bucket.get_object("small.bin", byte_range=(100_000, 300_000), headers=standard).read(), SMALL[100_000:])
    errand.did("range")


def _parts(errand: Errand, bucket: Any) -> None:
    oss2.resumable_upload(bucket, "large.bin", str(large_file()), headers={"x-oss-meta-by": "parts"})
    equal(bucket.head_object("large.bin").headers["x-oss-meta-by"], "parts")

    size, small = 100 << 10, LARGE[: 2 * MEBIBYTE + 5]  # the smallest that OSS takes, of which S3 would take none
    upload = bucket.init_multipart_upload("little-parts.bin").upload_id
    parts = []
    for number, start in enumerate(range(0, len(small), size), 1):
        part = bucket.upload_part("little-parts.bin", upload, number, small[start : start + size])
        parts.append(oss2.models.PartInfo(number, part.etag, part_crc=part.crc, size=len(small[start : start + size])))
    listed = list(oss2.PartIterator(bucket, "little-parts.bin", upload, max_parts=5))
    equal([(part.part_number, part.size) for part in listed], [(part.part_number, part.size) for part in parts])
    equal([part.etag.upper() for part in listed], [part.etag.upper() for part in parts])
    equal([found.key for found in oss2.MultipartUploadIterator(bucket)], ["little-parts.bin"])
    equal([found.upload_id for found in oss2.ObjectUploadIterator(bucket, "little-parts.bin")], [upload])
    whole = bucket.complete_multipart_upload("little-parts.bin", upload, parts)
    equal((whole.crc, bucket.head_object("little-parts.bin").server_crc), (crc(small), crc(small)))
    same(bucket.get_object("little-parts.bin").read(), small)

    upload = bucket.init_multipart_upload("copied-parts.bin").upload_id
    parts = []
    for number, (start, stop) in enumerate(((0, 5 * MEBIBYTE - 1), (5 * MEBIBYTE, len(LARGE) - 1)), 1):
        part = bucket.upload_part_copy(errand.bucket, "large.bin", (start, stop), "copied-parts.bin", upload, number)
        parts.append(oss2.models.PartInfo(number, part.etag))
    bucket.complete_multipart_upload("copied-parts.bin", upload, parts)
    same(bucket.get_object("copied-parts.bin").read(), LARGE)

    given_up = bucket.init_multipart_upload("never").upload_id
    bucket.upload_part("never", given_up, 1, SMALL)
    bucket.abort_multipart_upload("never", given_up)
    equal(failure(bucket.list_parts, "never", given_up)[1], "NoSuchUpload")
    errand.did("parts up")


def _resume(errand: Errand, bucket: Any) -> None:
    """An upload that was interrupted and goes on where it was: oss2 asks which parts there are."""
    options = {"multipart_threshold": MEBIBYTE, "part_size": MEBIBYTE, "num_threads": 4}
    store = oss2.ResumableStore(root=".")

    def until_half(done: int, _of: int) -> None:
        if done > len(LARGE) // 2:
            raise GaveUp

    try:
        oss2.resumable_upload(
            bucket, "resumed.bin", str(large_file()), store=store, progress_callback=until_half, **options
        )
    except GaveUp:
        pass
    else:
        raise AssertionError("the upload was not interrupted")
    begun = [found.upload_id for found in oss2.ObjectUploadIterator(bucket, "resumed.bin")]
    equal(len(begun), 1)
    kept = len(list(oss2.PartIterator(bucket, "resumed.bin", begun[0])))
    equal(kept >= 7, True)
    went_on: list[int] = []
    oss2.resumable_upload(
        bucket,
        "resumed.bin",
        str(large_file()),
        store=store,
        progress_callback=lambda done, _of: went_on.append(done),
        **options,
    )
    equal(went_on[0], kept * MEBIBYTE)
    same(bucket.get_object("resumed.bin").read(), LARGE)
    errand.did("resume")


def _download(errand: Errand, bucket: Any) -> None:
    for key in ("large.bin", "large.bin", "resumed.bin"):
        oss2.resumable_download(bucket, key, "large-back.bin", multiget_threshold=MEBIBYTE, part_size=3 * MEBIBYTE)
        same(Path("large-back.bin").read_bytes(), LARGE)
    errand.did("ranges down")


def _list(errand: Errand, bucket: Any, service: Any) -> None:
    keys = sorted(
        [ODD, "small.bin", "empty", "streamed.bin", "large.bin", "little-parts.bin", "copied-parts.bin", "resumed.bin"]
    )
    one = bucket.list_objects()
    equal(sorted(found.key for found in one.object_list), keys)
    equal({found.type for found in one.object_list if found.key in (ODD, "small.bin")}, {"Normal"})
    equal([found.key for found in bucket.list_objects(prefix="odd/").object_list], [ODD])
    first = bucket.list_objects(max_keys=3)
    rest = bucket.list_objects(marker=first.next_marker)
    equal([found.key for found in first.object_list + rest.object_list], keys)
    equal([found.key for found in oss2.ObjectIterator(bucket, max_keys=2)], keys)
    equal([found.key for found in oss2.ObjectIteratorV2(bucket, max_keys=2)], keys)
    second = bucket.list_objects_v2(start_after=keys[1], fetch_owner=True)
    equal([found.key for found in second.object_list], keys[2:])
    equal([found.key for found in oss2.ObjectIterator(bucket, delimiter="/") if found.is_prefix()], ["odd/"])
    folders = bucket.list_objects_v2(delimiter="/").prefix_list
    equal(folders, ["odd/"])
    # `in`: an origin has the buckets of others as well
    equal(errand.bucket in [found.name for found in oss2.BucketIterator(service)], True)
    equal(bucket.get_bucket_info().name, errand.bucket)
    equal(bool(bucket.get_bucket_location().location), True)
    errand.did("list")


def _copy(errand: Errand, bucket: Any) -> None:
    bucket.copy_object(errand.bucket, "empty", "small.bin")
    same(bucket.get_object("small.bin").read(), b"")
    bucket.copy_object(errand.bucket, ODD, "small.bin")
    copied = bucket.get_object("small.bin")
    same(copied.read(), SMALL)
    equal((copied.content_type, copied.headers["x-oss-meta-colour"]), ("text/odd", "blue"))
    bucket.update_object_meta("small.bin", {"x-oss-meta-colour": "red"})
    equal(bucket.head_object("small.bin").headers["x-oss-meta-colour"], "red")
    errand.did("copy")


def _delete(errand: Errand, bucket: Any) -> None:
    bucket.delete_object("small.bin")
    equal(failure(bucket.get_object, "small.bin")[1], "NoSuchKey")
    equal(bucket.object_exists("small.bin"), False)
    gone = bucket.batch_delete_objects([ODD, "empty", "never"])
    equal(sorted(gone.deleted_keys), sorted([ODD, "empty", "never"]))
    equal(failure(bucket.head_object, ODD)[1], "NoSuchKey")
    errand.did("delete")


def _signed(errand: Errand, bucket: Any) -> None:
    key, kind = "signed/a b+c.bin", {"Content-Type": "text/odd"}
    fetch(bucket.sign_url("PUT", key, 60, headers=kind), "PUT", SMALL, kind)
    for safe in (False, True):
        same(fetch(bucket.sign_url("GET", key, 60, slash_safe=safe)), SMALL)
    url = bucket.sign_url("GET", key, 60, params={"response-content-type": "text/other"})
    found = bucket.get_object_with_url(url)
    same(found.read(), SMALL)
    equal(found.content_type, "text/other")
    bucket.put_object_with_url(bucket.sign_url("PUT", "signed/url.bin", 60), SMALL)
    bucket.get_object_with_url_to_file(bucket.sign_url("GET", "signed/url.bin", 60), "back.bin")
    errand.did("presigned")


def _refused(errand: Errand, bucket: Any, foreign: Any) -> None:
    """What an S3 origin has no words for is refused as such, and nothing is written."""
    equal(failure(bucket.append_object, "appended", 0, SMALL)[:2], (501, "NotImplemented"))
    equal(failure(bucket.put_symlink, "signed/url.bin", "link")[:2], (501, "NotImplemented"))
    equal(failure(bucket.get_object, "signed/url.bin", process="image/resize,w_100")[:2], (501, "NotImplemented"))
    equal((bucket.object_exists("appended"), bucket.object_exists("link")), (False, False))
    status, code, request = failure(foreign.get_object, "signed/url.bin")
    equal((status, code), (403, "SignatureDoesNotMatch"))
    equal(bool(request), True)
    errand.did("refused")


def _pieces() -> Iterator[bytes]:
    """LARGE, of a length that nobody knows before its end."""
    for start in range(0, len(LARGE), 700_001):
        yield LARGE[start : start + 700_001]


def crc(content: bytes) -> int:
    """As oss2 counts it. Where Forebay says nothing of it, oss2 compares nothing: so that it does is looked at here."""
    counted = oss2.utils.Crc64()
    counted(content)
    value: int = counted.crc
    return value


def failure(call: Any, *arguments: Any, **options: Any) -> tuple[int, str, str]:
    """Status, code and request id of a call that must fail."""
    try:
        call(*arguments, **options)
    except oss2.exceptions.ServerError as error:
        return error.status, error.code, error.request_id
    raise AssertionError(f"{call} succeeded with {arguments}, {options}")


if __name__ == "__main__":
    travel(oss2.AuthV4, "cn-hangzhou")
    travel_to_a_cname()
    travel_with_a_token(oss2.AUTH_VERSION_4, "cn-hangzhou")
