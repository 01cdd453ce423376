"""The embedded origin, and what it promises: a real S3 on loopback, ours alone, and gone when we are."""

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

import forebay
from forebay_demo.child_process import DemoUnavailable
from forebay_demo.demo_directory import demo_directory, require_xattrs
from forebay_demo.embedded_swift import EmbeddedSwift
from harness.reference_sigv4 import Secret
from harness.swift import SwiftOrigin, running_swift

MIB = 1024 * 1024

_OWNER = """
import sys
from pathlib import Path
from forebay_demo.embedded_swift import EmbeddedSwift
origin = EmbeddedSwift(Path(sys.argv[1]))
origin.start()
print(origin.pid, origin.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def client(swift: SwiftOrigin, boto3_client: Callable[..., Any]) -> Any:
    return boto3_client(swift.endpoint, swift.secret)


def test_what_was_put_is_what_is_read(swift: SwiftOrigin, client: Any) -> None:
    bucket, content = swift.fresh_bucket(), os.urandom(100_000)
    client.put_object(Bucket=bucket, Key="a//b c", Body=content, Metadata={"who": "me"})
    answer = client.get_object(Bucket=bucket, Key="a//b c")
    assert answer["Body"].read() == content
    assert answer["Metadata"] == {"who": "me"}
    ranged = client.get_object(Bucket=bucket, Key="a//b c", Range="bytes=10-99")
    assert ranged["Body"].read() == content[10:100]
    assert ranged["ContentRange"] == "bytes 10-99/100000"


def test_port_and_id_persist_as_the_objects_do(tmp_path: Path) -> None:
    """So that a cache is recognised as this origin's."""
    with running_swift(tmp_path / "one") as origin:
        known = origin.server.id, origin.server.port
    with running_swift(tmp_path / "one") as origin:
        assert (origin.server.id, origin.server.port) == known
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", known[1]))
        other.listen()
        with running_swift(tmp_path / "one") as origin:
            assert origin.server.id == known[0]
            assert origin.server.port != known[1]
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "port").write_text("no port")
    with running_swift(tmp_path / "two") as origin:
        assert origin.server.id != known[0]


def test_listing_shows_a_key_as_soon_as_it_is_put(swift: SwiftOrigin, client: Any) -> None:
    bucket = swift.fresh_bucket()
    for number in range(20):
        client.put_object(Bucket=bucket, Key=f"k/{number:02}", Body=b"x")
    listed = client.list_objects_v2(Bucket=bucket, Prefix="k/")["Contents"]
    assert [found["Key"] for found in listed] == [f"k/{number:02}" for number in range(20)]


def test_multipart_upload_becomes_one_object(swift: SwiftOrigin, client: Any) -> None:
    bucket, pieces = swift.fresh_bucket(), [os.urandom(5 * MIB), os.urandom(1000)]
    upload = client.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(Bucket=bucket, Key="big", UploadId=upload, PartNumber=number, Body=piece)[
                "ETag"
            ],
        }
        for number, piece in enumerate(pieces, 1)
    ]
    client.complete_multipart_upload(Bucket=bucket, Key="big", UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.get_object(Bucket=bucket, Key="big")["Body"].read() == b"".join(pieces)
    across = client.get_object(Bucket=bucket, Key="big", Range=f"bytes={5 * MIB - 10}-{5 * MIB + 9}")["Body"].read()
    assert across == pieces[0][-10:] + pieces[1][:10]


def test_a_wrong_secret_is_refused(swift: SwiftOrigin, boto3_client: Callable[..., Any]) -> None:
    stranger = boto3_client(swift.endpoint, Secret(swift.secret.access, "not the secret"))
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        stranger.list_buckets()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"


def test_the_origin_counts_what_it_was_asked_and_what_it_sent(swift: SwiftOrigin, client: Any) -> None:
    bucket = swift.fresh_bucket()
    client.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    for _ in range(3):
        client.get_object(Bucket=bucket, Key="k")["Body"].read()
    assert swift.tally(bucket, "GET") == (3, 3000)
    assert swift.tally(bucket).requests == 5  # and two PUTs: the bucket and the object
    assert swift.tally("never-heard-of") == (0, 0)


def test_objects_are_there_after_a_restart(tmp_path: Path, boto3_client: Callable[..., Any]) -> None:
    with running_swift(tmp_path) as origin:
        client = boto3_client(origin.endpoint, origin.secret)
        client.create_bucket(Bucket="kept")
        client.put_object(Bucket="kept", Key="k", Body=b"still here")
    with running_swift(tmp_path) as origin:
        client = boto3_client(origin.endpoint, origin.secret)
        assert client.get_object(Bucket="kept", Key="k")["Body"].read() == b"still here"


@pytest.mark.usefixtures("swift")  # skips where Swift can't run
def test_nothing_is_left_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(forebay.__file__).parents[1])},
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        origin, _port = map(int, owner.stdout.readline().split())
        handle = os.pidfd_open(origin)
        owner.kill()
    try:
        # A pidfd becomes readable when its process has ended, whoever reaps it.
        assert _readable_within(handle, 10)
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def test_closing_ends_the_process(tmp_path: Path) -> None:
    with running_swift(tmp_path) as origin:
        handle = os.pidfd_open(origin.server.pid)
        assert os.getpgid(origin.server.pid) != os.getpgid(0)  # the terminal's Ctrl-C is not for it
    try:
        assert _readable_within(handle, 0)
    finally:
        os.close(handle)
    origin.server.close()  # once more does no harm


@pytest.mark.usefixtures("swift")
def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DemoUnavailable, match="choose another port"):
            EmbeddedSwift(tmp_path, taken.getsockname()[1]).start()


def test_a_directory_in_use_is_told(swift: SwiftOrigin) -> None:
    with pytest.raises(DemoUnavailable, match=r"Another demo is running in .*FOREBAY_DEMO_DIR"):
        EmbeddedSwift(swift.server.directory).start()


@pytest.mark.usefixtures("swift")
def test_a_directory_that_cannot_be_made_is_told() -> None:
    with pytest.raises(DemoUnavailable, match=r"can't write to /proc/self/x .*FOREBAY_DEMO_DIR"):
        EmbeddedSwift(Path("/proc/self/x")).start()


@pytest.mark.usefixtures("swift")
def test_a_server_that_dies_while_starting_shows_why(tmp_path: Path) -> None:
    (tmp_path / "account.ring.gz").mkdir()  # where a ring is to be written
    with pytest.raises(DemoUnavailable, match=r"(?s)ended while starting.*account\.ring\.gz"):
        EmbeddedSwift(tmp_path).start()


def test_a_file_system_without_user_xattrs_is_told(tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    with pytest.raises(DemoUnavailable, match=r"no user xattrs.*FOREBAY_DEMO_DIR"):
        require_xattrs(tmp_path, refuse)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_directory_is_the_users_choice() -> None:
    assert demo_directory({"FOREBAY_DEMO_DIR": "/x"}) == Path("/x")
    assert demo_directory({"FOREBAY_DEMO_DIR": ""}) == Path(".forebay")
    assert demo_directory({}) == Path(".forebay")


def _readable_within(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])
