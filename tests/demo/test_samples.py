"""The demo's sample set: the same bytes each time, usable as what they claim to be, and written once."""

import hashlib
import json
import struct

import pytest

from forebay_demo.sample_reader import read_set, s3_client
from forebay_demo.samples import BUCKET, LABEL_BYTES, MANIFEST, manifest, samples, write_samples
from harness.swift import SwiftOrigin


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return {sample.key: sample.make() for sample in samples()}


def test_the_set_is_what_it_says_it_is(expected: dict[str, bytes]) -> None:
    tensors = [content for key, content in expected.items() if key.startswith("train/tensors/")]
    labels = [content for key, content in expected.items() if key.startswith("train/labels/")]
    assert ({len(content) for content in tensors}, len(tensors)) == ({602_112}, 64)
    assert ({len(content) for content in labels}, len(labels)) == ({LABEL_BYTES}, 200)
    assert len(set(expected.values())) == len(expected)  # so that an answer for another key can't go unnoticed
    assert sum(map(len, expected.values())) < 100_000_000


def test_tensors_hold_ordinary_floats(expected: dict[str, bytes]) -> None:
    values = [value for (value,) in struct.iter_unpack("<f", expected["train/tensors/00007.f32"])]
    assert len(values) == 3 * 224 * 224
    assert 1 <= min(values) < 1.01
    assert 1.99 < max(values) < 2


def test_labels_are_json(expected: dict[str, bytes]) -> None:
    assert json.loads(expected["train/labels/00007.json"])["id"] == 7


def test_the_set_is_the_same_at_every_start() -> None:
    # Written down once: it must not change with the version of Python, or a kept origin would hold another set.
    assert (
        hashlib.sha256(manifest(samples())).hexdigest()
        == "cef805699567035616a0c296268848c3720ab2e15fb43c29742b07ebf8d6fa78"
    )


def test_the_set_is_written_once_and_read_back(swift: SwiftOrigin) -> None:
    few = samples()[1::20]
    expected = {sample.key: sample.make() for sample in few}
    client = s3_client(swift.endpoint, swift.secret.access, swift.secret.secret, swift.secret.region)
    try:
        assert write_samples(client, few)
        assert not write_samples(client, few)
        assert client.get_object(Bucket=BUCKET, Key=MANIFEST)["Body"].read() == manifest(few)
        reading = read_set(client, expected)
        assert (reading.size, reading.wrong) == (sum(map(len, expected.values())), ())

        # Without the manifest it counts as half written, and is written again.
        torn = few[-1].key
        client.delete_object(Bucket=BUCKET, Key=MANIFEST)
        client.put_object(Bucket=BUCKET, Key=torn, Body=b"torn")
        assert read_set(client, expected).wrong == (torn,)
        assert write_samples(client, few)
        assert read_set(client, expected).wrong == ()
    finally:
        client.close()
