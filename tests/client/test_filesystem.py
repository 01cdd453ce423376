"""The fsspec file system: fsspec's own suite, through a Forebay and a plain S3, and s3fs on the same operations."""

import gc
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import FunctionType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import fsspec
import pytest
from fsspec.tests import abstract
from fsspec.tests.abstract.common import GLOB_EDGE_CASES_TESTS

from forebay_client import Client, InvalidRequest
from forebay_client.filesystem import ObjectFileSystem
from forebay_client.transport.object_request import ObjectRequest
from harness.fake import actions
from harness.rig import TRAINER
from harness.served_thread import Served, served_thread

RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_thread(tmp_path_factory.mktemp("served"), rest=RULE) as running:
        running.origin.store.create_bucket("suite")
        running.origin.store.create_bucket("data")
        yield running


def filesystem(served: Served, *, direct: bool = False, **options: Any) -> ObjectFileSystem:
    secret = served.origin.secret if direct else TRAINER
    endpoint = served.origin.endpoint if direct else served.endpoint
    return ObjectFileSystem(
        endpoint, access_key=secret.access, secret_key=secret.secret, region=secret.region, retries=0, **options
    )


@pytest.fixture
def fs(served: Served) -> ObjectFileSystem:
    return filesystem(served)


@pytest.fixture
def base(served: Served, request: pytest.FixtureRequest) -> str:
    """A path of the test's own."""
    return f"data/{request.node.name.replace('[', '-').replace(']', '')}"


class SuiteFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, served: Served) -> ObjectFileSystem:
        return filesystem(served)

    @pytest.fixture
    def fs_join(self) -> Any:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self) -> str:
        return "suite"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


def each_third(first: int) -> Callable[[Any], Any]:
    """Every third one of the suite's patterns, as it copies, gets and puts by each of them, in a hundred requests. What
    a pattern means is decided by fsspec's own code."""
    return pytest.mark.parametrize(GLOB_EDGE_CASES_TESTS["argnames"], GLOB_EDGE_CASES_TESTS["argvalues"][first::3])


def unmarked(test: Callable[..., None]) -> Callable[..., None]:
    """The suite's test without its own cases."""
    return FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)


class TestCopy(abstract.AbstractCopyTests, SuiteFixtures):
    test_copy_glob_edge_cases = each_third(0)(unmarked(abstract.AbstractCopyTests.test_copy_glob_edge_cases))


class TestGet(abstract.AbstractGetTests, SuiteFixtures):
    test_get_glob_edge_cases = each_third(1)(unmarked(abstract.AbstractGetTests.test_get_glob_edge_cases))


class TestPut(abstract.AbstractPutTests, SuiteFixtures):
    test_put_glob_edge_cases = each_third(2)(unmarked(abstract.AbstractPutTests.test_put_glob_edge_cases))


class TestOpen(abstract.AbstractOpenTests, SuiteFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, SuiteFixtures):
    pass


def test_a_tree_is_listed_found_and_walked(fs: ObjectFileSystem, base: str) -> None:
    for name in ("a", "b/c", "b/d/e", "b.txt"):
        fs.pipe_file(f"{base}/{name}", name.encode())
    assert fs.ls(base, detail=False) == [f"{base}/{name}" for name in ("a", "b", "b.txt")]
    assert {entry["name"]: entry["type"] for entry in fs.ls(base)} == {
        f"{base}/a": "file",
        f"{base}/b": "directory",
        f"{base}/b.txt": "file",
    }
    assert fs.find(base) == [f"{base}/{name}" for name in ("a", "b.txt", "b/c", "b/d/e")]
    assert fs.find(base, maxdepth=1) == [f"{base}/{name}" for name in ("a", "b.txt")]
    assert fs.find(base, withdirs=True, detail=True)[f"{base}/b/d"]["type"] == "directory"
    assert fs.glob(f"{base}/b*") == [f"{base}/b", f"{base}/b.txt"]
    assert fs.glob(f"{base}/**/e") == [f"{base}/b/d/e"]
    assert [(path, sorted(dirs), sorted(files)) for path, dirs, files in fs.walk(base)] == [
        (base, ["b"], ["a", "b.txt"]),
        (f"{base}/b", ["d"], ["c"]),
        (f"{base}/b/d", [], ["e"]),
    ]
    assert fs.info(f"{base}/b")["type"] == "directory"
    assert (fs.isfile(f"{base}/b"), fs.isdir(f"{base}/b"), fs.exists(f"{base}/none")) == (False, True, False)
    assert fs.du(base) == len("ab/cb/d/eb.txt")
    assert "data" in fs.ls("", detail=False)
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{base}/none")


def test_bytes_come_in_slices(fs: ObjectFileSystem, base: str) -> None:
    content = bytes(range(256)) * 10
    fs.pipe_file(f"{base}/a", content)
    for start, end in ((None, None), (5, None), (None, 7), (-9, None), (3, -3), (-9, -3), (9, 3), (2500, 9999)):
        assert fs.cat_file(f"{base}/a", start, end) == content[start:end], (start, end)
    assert fs.head(f"{base}/a", 3) == content[:3]
    assert fs.tail(f"{base}/a", 3) == content[-3:]
    with pytest.raises(FileNotFoundError, match="NoSuchKey"):
        fs.cat_file(f"{base}/none")


def test_many_ranges_are_one_request(served: Served, fs: ObjectFileSystem, base: str) -> None:
    contents = {f"{base}/{number}": bytes([number]) * 1000 for number in range(50)}
    fs.pipe(contents)
    before = fs.client.stats.requests["http"]
    assert fs.cat(list(contents)) == contents
    assert fs.client.stats.requests["http"] - before == 1
    found = fs.cat_ranges([*contents, f"{base}/none"], 10, 20)
    assert found[:50] == [content[10:20] for content in contents.values()]
    assert isinstance(found[50], FileNotFoundError)
    assert fs.client.stats.requests["http"] - before == 2
    assert fs.client.stats.fallbacks == {}
    found = fs.cat_ranges([f"{base}/none", f"{base}/7"], -5, None)
    assert (type(found[0]), found[1]) == (FileNotFoundError, bytes([7]) * 5)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{base}/none"], -5, None, on_error="raise")
    with pytest.raises(FileNotFoundError):
        fs.cat([f"{base}/none", f"{base}/1"])
    assert set(fs.cat([f"{base}/none", f"{base}/1"], on_error="omit")) == {f"{base}/1"}
    assert set(fs.cat(base, recursive=True)) == set(contents)


@pytest.mark.parametrize("size", [0, 10, (5 << 20) + 1, 12 << 20])
def test_files_are_written_and_read(fs: ObjectFileSystem, base: str, size: int) -> None:
    content = (bytes(range(251)) * (size // 251 + 1))[:size]
    with fs.open(f"{base}/a", "wb", block_size=5 << 20) as file:
        for at in range(0, size, 1 << 20):
            file.write(content[at : at + (1 << 20)])
        assert not fs.exists(f"{base}/a"), "an object is there once it is whole"
    with fs.open(f"{base}/a", "rb", block_size=1 << 20) as file:
        assert (file.size, file.read()) == (size, content)
        file.seek(size // 2)
        assert file.read(5) == content[size // 2 : size // 2 + 5]
    with fs.open(f"{base}/text", "w") as text:
        text.write("line\nä\n")
    with fs.open(f"{base}/text") as lines:
        assert list(lines) == [b"line\n", "ä\n".encode()]


def test_a_writer_that_fails_leaves_nothing(served: Served, fs: ObjectFileSystem, base: str) -> None:
    def write(size: int) -> None:
        with fs.open(f"{base}/a", "wb", block_size=5 << 20) as file:
            file.write(bytes(size))
            raise RuntimeError("no more")

    for size in (10, 11 << 20):
        with pytest.raises(RuntimeError):
            write(size)
        assert not fs.exists(f"{base}/a")
    with fs.transaction:
        with fs.open(f"{base}/b", "wb") as file:
            file.write(b"later")
        assert not fs.exists(f"{base}/b")
    assert fs.cat_file(f"{base}/b") == b"later"


@pytest.mark.parametrize("size", [10, 11 << 20])
def test_a_file_that_is_never_closed_leaves_nothing(served: Served, fs: ObjectFileSystem, base: str, size: int) -> None:
    """An exception has come between: half a checkpoint is none."""
    fs.open(f"{base}/a", "wb", block_size=5 << 20).write(bytes(size))
    gc.collect()
    assert not fs.exists(f"{base}/a")
    uploads = fs.client.send_request(ObjectRequest("GET", "data", query=(("uploads", ""),)))
    assert b"<Upload>" not in bytes(uploads.body)


def test_a_file_never_holds_two_versions(served: Served, base: str) -> None:
    fs = filesystem(served, direct=True)
    fs.pipe_file(f"{base}/a", b"first" * 1000)
    with fs.open(f"{base}/a", block_size=100, cache_type="none") as file:
        assert file.read(5) == b"first"
        fs.pipe_file(f"{base}/a", b"other" * 1000)
        with pytest.raises(OSError, match="412"):
            file.read(5)


def test_another_range_than_was_asked_for_is_an_error(served: Served, base: str) -> None:
    bucket, key = base.split("/")
    served.origin.store.put(bucket, key, b"content of it")
    fault = served.origin.faults.add(actions.AnotherRange("bytes=0-4"), key=key, method="GET")
    with filesystem(served, direct=True).open(base, "rb") as file:
        file.seek(5)
        with pytest.raises(OSError, match="another range"):
            file.read(5)
    served.origin.faults.remove(fault)


def test_objects_are_moved_copied_and_removed(fs: ObjectFileSystem, base: str, tmp_path: Path) -> None:
    fs.pipe_file(f"{base}/a b%c", b"1")
    fs.cp(f"{base}/a b%c", f"{base}/b")
    fs.mv(f"{base}/b", f"{base}/c")
    assert fs.find(base) == [f"{base}/a b%c", f"{base}/c"]
    fs.touch(f"{base}/d")
    assert fs.size(f"{base}/d") == 0
    with pytest.raises(NotImplementedError):
        fs.touch(f"{base}/d", truncate=False)
    assert abs((fs.modified(f"{base}/c") - datetime.now(UTC)).total_seconds()) < 600
    before = fs.ukey(f"{base}/c")
    fs.pipe_file(f"{base}/c", b"2")
    assert fs.ukey(f"{base}/c") != before
    fs.put(str(Path(__file__).parent / "batch"), f"{base}/put", recursive=True)
    fs.get(f"{base}/put", str(tmp_path / "got"), recursive=True)
    names = sorted(path.name for path in (tmp_path / "got").rglob("*.py"))
    assert names == sorted(path.name for path in (Path(__file__).parent / "batch").glob("*.py"))
    fs.rm(base, recursive=True)
    assert fs.find(base) == []


def test_buckets_are_made_and_removed(fs: ObjectFileSystem) -> None:
    fs.mkdir("made")
    with pytest.raises(FileExistsError):
        fs.mkdir("made")
    fs.makedirs("made/below", exist_ok=True)
    fs.makedirs("made", exist_ok=True)
    assert fs.isdir("made")
    fs.rmdir("made")
    assert not fs.exists("made")


def test_listings_are_kept_where_asked_for(served: Served, base: str) -> None:
    plain, kept = filesystem(served), filesystem(served, use_listings_cache=True)
    plain.pipe_file(f"{base}/a", b"")
    for fs in (plain, kept):
        assert fs.ls(base, detail=False) == [f"{base}/a"]
    plain.pipe_file(f"{base}/b", b"")
    assert plain.ls(base, detail=False) == [f"{base}/a", f"{base}/b"]
    assert kept.ls(base, detail=False) == [f"{base}/a"]
    kept.pipe_file(f"{base}/c", b"")
    assert len(kept.ls(base)) == 3


def test_errors_are_those_of_files(served: Served, base: str) -> None:
    secret = served.origin.secret
    fs = ObjectFileSystem(served.endpoint, access_key=secret.access, secret_key="wrong", retries=0)
    with pytest.raises(PermissionError, match="403"):
        fs.cat_file(f"{base}/a")
    with pytest.raises(TypeError, match="unknown"):
        ObjectFileSystem(served.endpoint, unknown=1)


@pytest.mark.skipif(
    not entry_points(group="fsspec.specs", name="forebay"), reason="installed before it had the entry point: make clean"
)
def test_it_is_found_by_its_protocol_and_pickles(served: Served, base: str) -> None:
    options = {"endpoint_url": served.endpoint, "key": TRAINER.access, "secret": TRAINER.secret}
    with fsspec.open(f"forebay://{base}/a", "wb", **options) as file:
        file.write(b"content")
    fs = fsspec.filesystem("forebay", **options)
    assert isinstance(fs, ObjectFileSystem)
    again = pickle.loads(pickle.dumps(fs))
    assert again.cat_file(f"forebay://{base}/a") == again.cat_file(f"s3://{base}/a") == b"content"


def test_s3fs_says_the_same(served: Served, base: str) -> None:
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    secret = served.origin.secret
    theirs = s3fs.S3FileSystem(
        key=secret.access,
        secret=secret.secret,
        client_kwargs={"endpoint_url": served.origin.endpoint, "region_name": secret.region},
        use_listings_cache=False,
        asynchronous=False,
    )
    ours = filesystem(served)
    for name in ("a", "b/c", "b/d/e", "b.txt", "z/é ü"):
        ours.pipe_file(f"{base}/{name}", name.encode() * 10)
    for call in (
        lambda fs: sorted(fs.ls(base, detail=False)),
        lambda fs: sorted((entry["name"], entry["size"], entry["type"]) for entry in fs.ls(base, detail=True)),
        lambda fs: fs.find(base),
        lambda fs: sorted(fs.glob(f"{base}/**")),
        lambda fs: sorted(fs.glob(f"{base}/b*")),
        lambda fs: fs.cat(f"{base}/b/c"),
        lambda fs: fs.cat([f"{base}/a", f"{base}/b/c"]),
        lambda fs: fs.cat_ranges([f"{base}/a", f"{base}/b/c"], [0, 3], [5, 9]),
        lambda fs: fs.cat_file(f"{base}/a", start=-4),
        lambda fs: [fs.exists(f"{base}/{name}") for name in ("a", "b", "none")],
        lambda fs: [fs.isdir(f"{base}/{name}") for name in ("a", "b", "none")],
        lambda fs: {name: fs.info(f"{base}/{name}")["type"] for name in ("a", "b")},
        lambda fs: fs.info(f"{base}/a")["ETag"],
        lambda fs: fs.du(base),
        lambda fs: fs.open(f"{base}/b/d/e").read(),
        lambda fs: sorted(path for path, _, _ in fs.walk(base)),
    ):
        assert call(ours) == call(theirs)
    with pytest.raises(FileNotFoundError):
        theirs.cat(f"{base}/none")


@pytest.mark.parametrize("size", [0, 10, 6 << 20], ids=["empty", "small", "large"])
def test_appending_keeps_what_there_is(fs: ObjectFileSystem, served: Served, base: str, size: int) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    fs.client.put("data", base.partition("/")[2], content[:size], content_type="text/x", metadata={"a": "b"})
    with fs.open(base, "ab") as file:
        assert file.tell() == size
        file.write(b"more")
    assert fs.cat(base) == content[:size] + b"more"
    found = fs.client.head("data", base.partition("/")[2])
    assert (found.content_type, found.metadata) == ("text/x", {"a": "b"})
    half = fs.open(base, "ab")
    half.write(b"never")
    half.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert fs.cat(base) == content[:size] + b"more"
    with fs.open(f"{base}-new", "ab") as file:
        file.write(b"made")
    assert fs.cat(f"{base}-new") == b"made"


def test_signed_urls_of_oss_are_read_by_anybody(served: Served, base: str) -> None:
    filesystem(served).pipe(f"{base}/a key+%41", b"content")
    secret: dict[str, Any] = {"access_key": TRAINER.access, "secret_key": TRAINER.secret, "region": TRAINER.region}
    with Client(served.endpoint, dialect="oss", **secret) as client:
        url = client.presign("data", f"{base}/a key+%41".partition("/")[2])
    with urlopen(url) as answer:
        assert answer.read() == b"content"
    with pytest.raises(HTTPError, match="403"):
        urlopen(url.replace("x-oss-expires=3600", "x-oss-expires=3601"))


def test_signed_urls_are_read_by_anybody(served: Served, base: str) -> None:
    for fs in (filesystem(served), filesystem(served, direct=True)):
        fs.pipe(f"{base}/a key+%41", b"content")
        with urlopen(fs.sign(f"{base}/a key+%41", expiration=60)) as answer:
            assert answer.read() == b"content"
        request = Request(fs.sign(f"{base}/new", method="PUT"), b"written", method="PUT")
        urlopen(request).close()
        assert fs.cat(f"{base}/new") == b"written"
        with pytest.raises(HTTPError, match="403"):
            urlopen(fs.sign(f"{base}/new").replace("new", "other"))
        with pytest.raises(ValueError, match="expires"):
            fs.sign(base, expiration=8 * 24 * 3600)


def test_a_bucket_or_a_prefix_is_no_file(fs: ObjectFileSystem, base: str) -> None:
    """Nor is one made, or deleted, in the stead of an object."""
    fs.pipe_file(f"{base}/a", b"content")
    for path in ("data", "data/", base):
        with pytest.raises(IsADirectoryError):
            fs.open(path)
    for path in ("data", "another", "another/"):
        with pytest.raises(IsADirectoryError):
            fs.open(path, "wb")
        for call in (fs.cat_file, fs.rm_file, fs.touch, fs.sign, partial(fs.pipe_file, value=b"x")):
            with pytest.raises((OSError, InvalidRequest), match="key of an object"):
                call(path)
        with pytest.raises(OSError, match="key of an object"):
            fs.cp_file(f"{base}/a", path)
    assert not fs.exists("another")
    assert fs.cat_file(f"{base}/a") == b"content"
