"""The objects of a data set: by prefix, by name, by manifest."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay_client.objects import CommonPrefix, ObjectInfo
from forebay_client.torch.sample_list import (
    listed_samples,
    manifest_samples,
    named_samples,
    parse_manifest,
    parse_sample_uri,
)


class Bucket:
    """A client of one bucket."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects

    def get(self, _bucket: str, key: str) -> memoryview:
        return memoryview(self.objects[key])

    def list(self, bucket: str, prefix: str = "") -> Iterator[Any]:
        yield from (ObjectInfo(bucket, key, 1, "") for key in self.objects if key.startswith(prefix))
        yield CommonPrefix(bucket, "never")


def test_a_prefix_lists_objects_alone() -> None:
    samples = listed_samples(Bucket(train1=b"", train2=b"", other=b""), "s3://set/train")
    assert (samples.keys, samples.buckets, len(samples), samples.label(1)) == (["train1", "train2"], ["set"], 2, "")


def test_names_of_several_buckets_keep_theirs() -> None:
    samples = named_samples(["s3://one/a", "s3://two/b/c"])
    assert [(samples.bucket(at), samples.keys[at]) for at in range(2)] == [("one", "a"), ("two", "b/c")]
    assert named_samples("s3://one/a").keys == ["a"]


def test_a_manifest_is_text_or_json_lines(tmp_path: Path) -> None:
    content = b'a/1\tcat\n\n{"key": "a/2", "label": [1, 2]}\n{"key": "a/3"}\na/4\n'
    rows = [("a/1", "cat"), ("a/2", [1, 2]), ("a/3", ""), ("a/4", "")]
    assert list(parse_manifest(io.BytesIO(content))) == rows
    file = tmp_path / "manifest"
    file.write_bytes(content)
    for location in (file, str(file), "s3://set/manifest"):
        samples = manifest_samples(Bucket(manifest=content), location, None, "s3://set/")
        assert (samples.keys, samples.labels) == ([key for key, _ in rows], [label for _, label in rows])


@pytest.mark.parametrize("line", [b"{not json", b'{"label": 3}', b'["a"]'])
def test_a_bad_line_of_a_manifest_is_named(line: bytes) -> None:
    if line.startswith(b"["):
        assert list(parse_manifest(io.BytesIO(line))) == [('["a"]', "")], "a key may begin with a bracket"
        return
    with pytest.raises(ValueError, match="line 2"):
        list(parse_manifest(io.BytesIO(b"a\n" + line)))


def test_a_uri_needs_a_scheme_and_a_bucket() -> None:
    assert parse_sample_uri("s3://set") == ("set", "")
    assert parse_sample_uri("oss://set/a/b") == parse_sample_uri("forebay://set/a/b") == ("set", "a/b")
    for uri in ("set/a", "s3:///a", "http://set/a", ""):
        with pytest.raises(ValueError, match="a URI is"):
            parse_sample_uri(uri)
