"""The demo's data set: what a small training job reads, the same bytes at every start.

    bucket demo:  train/tensors/00000.f32 ...   64 tensors of float32[3, 224, 224], 602 112 bytes each
                  train/labels/00000.json ...  200 labels of about 1 KiB
                  train/shard-00000.bin          one shard of 32 MiB
                  MANIFEST.json                  sizes and SHA-256 of all of them, written last

72 MB in all. The manifest's presence says that the set is complete, so an interrupted start writes it again.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

BUCKET: Final = "demo"
MANIFEST: Final = "MANIFEST.json"

TENSORS: Final = 64
TENSOR_BYTES: Final = 3 * 224 * 224 * 4
LABELS: Final = 200
LABEL_BYTES: Final = 1024
SHARD_BYTES: Final = 32 * 1024 * 1024

_WRITERS = 8
_SET_EXPONENT_BIT = bytes(byte | 0x80 for byte in range(256))


class Sample(NamedTuple):
    """One object of the set."""

    key: str
    content_type: str
    make: Callable[[], bytes]
    """Returns the bytes of the object; the same at every call."""


def samples() -> list[Sample]:
    """All objects of the set, without the manifest."""
    binary, text = "application/octet-stream", "application/json"
    return [
        # The shard comes first: whoever works through the set in parallel should not end with the longest.
        Sample("train/shard-00000.bin", binary, partial(_noise, "shard", SHARD_BYTES)),
        *(Sample(f"train/tensors/{number:05}.f32", binary, partial(_tensor, number)) for number in range(TENSORS)),
        *(Sample(f"train/labels/{number:05}.json", text, partial(_label, number)) for number in range(LABELS)),
    ]


def manifest(wanted: Iterable[Sample]) -> bytes:
    """The manifest's content: {key: {"size", "sha256"}}."""
    described = {}
    for sample in wanted:
        content = sample.make()
        described[sample.key] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return json.dumps(described, indent=1).encode()


def write_samples(client: Any, wanted: Sequence[Sample]) -> bool:
    """Puts the set into the origin of `client` (boto3's S3), unless it is there. Whether anything was written."""
    if BUCKET not in (bucket["Name"] for bucket in client.list_buckets()["Buckets"]):
        client.create_bucket(Bucket=BUCKET)
    elif client.list_objects_v2(Bucket=BUCKET, Prefix=MANIFEST)["KeyCount"]:
        return False

    def put(sample: Sample) -> None:
        client.put_object(Bucket=BUCKET, Key=sample.key, Body=sample.make(), ContentType=sample.content_type)

    with ThreadPoolExecutor(_WRITERS, thread_name_prefix="samples") as pool:
        for _ in pool.map(put, wanted):  # asking for the results raises what went wrong
            pass
    client.put_object(Bucket=BUCKET, Key=MANIFEST, Body=manifest(wanted), ContentType="application/json")
    return True


def _noise(name: str, size: int) -> bytes:
    return random.Random(name).randbytes(size)  # noqa: S311 - sample bytes, not secrets


def _tensor(number: int) -> bytes:
    """Little-endian floats in [1, 2): noise in the mantissa, sign and exponent fixed, so that no value is NaN."""
    content = bytearray(_noise(f"tensor {number}", TENSOR_BYTES))
    content[3::4] = b"\x3f" * (TENSOR_BYTES // 4)
    content[2::4] = content[2::4].translate(_SET_EXPONENT_BIT)
    return bytes(content)


def _label(number: int) -> bytes:
    dice = random.Random(f"label {number}")  # noqa: S311 - sample bytes, not secrets
    label = {"id": number, "class": dice.randrange(1000), "note": ""}
    label["note"] = dice.randbytes(LABEL_BYTES).hex()[: LABEL_BYTES - len(json.dumps(label))]
    return json.dumps(label).encode()
