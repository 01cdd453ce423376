"""The data sets, against the Forebay of the test: alone, in loaders, and beside those of the connectors."""

import inspect
import io
import json
import os
import pickle
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import osstorchconnector
import s3torchconnector
from torch.utils.data import DataLoader

import forebay_client.torch as ours
from client.torch.contents import CONTENTS, COUNT, PREFIX, URIS
from client.torch.torch_checks import Checks, raised
from forebay.protocol.packs.pack_index import IndexWriter
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard
from forebay_client import AccessDenied, Client, ObjectNotFound
from forebay_client.torch.dataset_client import client_for
from forebay_client.torch.dataset_keys import dataset_keys


def check_an_object_that_is_gone_is_named(checks: Checks) -> None:
    dataset = ours.ForebayMapDataset.from_keys("bucket", ["train/00.bin", "gone"], client=Client(checks.endpoint))
    for kind, indices in ((ObjectNotFound, [0, 1]), (IndexError, [0, 2])):
        with raised(kind, "bucket/gone|of 2"):
            dataset.__getitems__(indices)


def check_samples_have_their_bytes_without_a_copy(checks: Checks) -> None:
    dataset = ours.ForebayMapDataset.from_objects(URIS, client=Client(checks.endpoint))
    sample = dataset[7]
    assert bytes(sample.view) == CONTENTS["train/07.bin"]
    assert (sample.size, sample.readable(), sample.seekable()) == (107, True, True)


def check_manifests_name_keys_and_labels(checks: Checks) -> None:
    client = Client(checks.endpoint)
    client.put("bucket", "manifest.txt", b"00.bin\tcat\n05.bin\tdog\n")
    client.put(
        "bucket",
        "manifest.jsonl",
        b'{"key": "s3://bucket/train/03.bin", "label": 3}\n{"key": "s3://bucket/train/04.bin"}\n',
    )
    text = ours.ForebayMapDataset.from_manifest("s3://bucket/manifest.txt", base_uri=PREFIX, client=client)
    assert [(sample.key, sample.label) for sample in text] == [("train/00.bin", "cat"), ("train/05.bin", "dog")]
    lines = ours.ForebayIterableDataset.from_manifest("s3://bucket/manifest.jsonl", client=client)
    assert [(sample.key, sample.label) for sample in lines] == [("train/03.bin", 3), ("train/04.bin", "")]
    own = checks.directory / "own.csv"
    own.write_text("train/01.bin,one\n")
    parsed = ours.ForebayMapDataset.from_manifest(
        own,
        parser=lambda file: [line.decode().strip().split(",") for line in file],
        base_uri="s3://bucket/",
        client=client,
    )
    assert (parsed[0].key, parsed[0].label) == ("train/01.bin", "one")


def check_an_iterable_is_shared_shuffled_and_resumed(checks: Checks) -> None:
    client = Client(checks.endpoint)

    def made(**options: Any) -> Any:
        return ours.ForebayIterableDataset.from_prefix(
            PREFIX, client=client, transform=lambda sample: int(sample.read(1)[0]), batch=6, **options
        )

    assert list(made()) == list(range(COUNT))
    shuffled = made(shuffle=True, seed=4)
    first, second = list(shuffled), list(shuffled)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(COUNT))
    again = made(shuffle=True, seed=4)
    again.set_epoch(1)
    reading = iter(again)
    begun = [next(reading) for _ in range(11)]
    state = again.state_dict()
    resumed = made(shuffle=True, seed=4)
    resumed.load_state_dict(state)
    assert begun + list(resumed) == second
    ended = again.state_dict()
    list(reading)
    finished = made(shuffle=True, seed=4)
    finished.load_state_dict(again.state_dict())
    assert list(finished) == []
    assert list(finished) == list(again), "the next epoch is whole"
    assert ended["yielded"] == 11
    for batch in (0, -1):
        with raised(ValueError, "batch is at least 1"):
            ours.ForebayIterableDataset.from_prefix(PREFIX, client=client, batch=batch)


def check_iterators_of_one_data_set_know_nothing_of_each_other(checks: Checks) -> None:
    client = Client(checks.endpoint)
    client.put("bucket", "apart/0.tar", shard(0, 10))
    for dataset, count in (
        (ours.ForebayIterableDataset.from_prefix(PREFIX, client=client, batch=6), COUNT),
        (ours.ShardDataset("s3://bucket/apart/{0..0}.tar", client=client), 10),
    ):
        one, other = iter(dataset), iter(dataset)
        next(one), next(other)
        assert (1 + len(list(one)), 1 + len(list(other))) == (count, count)


def check_what_is_no_index_or_no_list_of_keys_says_so(checks: Checks) -> None:
    keys = (f"train/{number:02}.bin" for number in range(3))
    dataset = ours.ForebayMapDataset.from_keys("bucket", keys, client=Client(checks.endpoint))
    assert len(dataset) == 3
    indices: list[Any] = [1.5, "1", slice(0, 1)]
    for index in indices:
        with raised(TypeError, "an index of a data set is an int"):
            dataset[index]
    with raised(TypeError, "keys are a list"):
        ours.ForebayMapDataset.from_keys("bucket", "train/00.bin")
    assert {*ours.__all__} <= {*dir(ours)}


def shard(first: int, count: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(first, first + count):
            for extension, content in (("bin", bytes([number]) * 700), ("cls", str(number).encode())):
                member = tarfile.TarInfo(f"a.b/{number:04}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def check_shards_are_read_as_webdataset_has_them(checks: Checks) -> None:
    client = Client(checks.endpoint)
    for number in range(4):
        client.put("bucket", f"shards/train-{number:03}.tar", shard(10 * number, 10))

    def made(**options: Any) -> Any:
        return ours.ShardDataset(
            "s3://bucket/shards/train-{000..003}.tar",
            client=client,
            transform=lambda sample: int(sample["cls"]),
            **options,
        )

    assert list(made()) == list(range(40))
    plain = next(iter(ours.ShardDataset(["s3://bucket/shards/train-001.tar"], client=client)))
    assert plain == {
        "__key__": "a.b/0010",
        "__url__": "s3://bucket/shards/train-001.tar",
        "bin": bytes([10]) * 700,
        "cls": b"10",
    }
    shuffled = made(shuffle=True)
    reading = iter(shuffled)
    begun = [next(reading) for _ in range(13)]
    resumed = made(shuffle=True)
    resumed.load_state_dict(shuffled.state_dict())
    assert sorted(begun + list(resumed)) == list(range(40))
    assert begun != list(range(13))


def put_pack(client: Client, objects: dict[str, bytes]) -> str:
    """Puts a pack of these objects, and no object of their keys. The URI of its index."""
    buffer, writer, pieces = io.BytesIO(), IndexWriter(), []
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for key, content in sorted(objects.items()):
            member = tarfile.TarInfo(key)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
            offset, digest = buffer.tell() - -(-len(content) // 512) * 512, blake2b(content, digest_size=DIGEST_BYTES)
            pieces.append(writer.add(PackedMember(key, 0, offset, len(content), '"e"', 0, (), digest.digest())))
    shard = client.put("bucket", "packs/0.tar", buffer.getvalue())
    described = [PackShard("packs/0.tar", shard.size, shard.etag)]
    client.put("bucket", "packs/index.fbpack", b"".join((*pieces, writer.finish([""], described, 1.0))))
    return "s3://bucket/packs/index.fbpack"


def check_members_of_a_pack_are_samples_without_a_rule(checks: Checks) -> None:
    client = Client(checks.endpoint)
    packed = {f"only-packed/{number:02}": bytes([number]) * (number * 90) for number in range(30)}
    uri = put_pack(client, {**packed, "other/1": b"1"})
    for kind in (ours.ForebayMapDataset, ours.ForebayIterableDataset):
        dataset = kind.from_pack(uri, prefix="only-packed/", client=client)
        for read in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert {sample.key: bytes(sample.view) for sample in read} == packed
            assert dataset_keys(read) is None, "no plan looks for objects that there are not"
    batches = DataLoader(
        ours.ForebayMapDataset.from_pack(
            uri, prefix="only-packed/", client=client, transform=lambda sample: sample.size
        ),
        batch_size=8,
    )
    assert [size for batch in batches for size in batch.tolist()] == [len(content) for content in packed.values()]
    with raised(ObjectNotFound, "none.fbpack"):
        ours.ForebayMapDataset.from_pack("s3://bucket/none.fbpack", client=client)


def check_the_oss_pair_reads_as_the_connector_is_told(checks: Checks) -> None:
    Client(checks.endpoint).put("bucket", "manifest.oss", b"00.bin\tcat\n05.bin\tdog\n")
    secret = {"AccessKeyId": os.environ["AWS_ACCESS_KEY_ID"], "AccessKeySecret": os.environ["AWS_SECRET_ACCESS_KEY"]}
    stored = checks.directory / "credentials.json"
    stored.write_text(json.dumps(secret))
    found = SimpleNamespace(access_key_id=secret["AccessKeyId"], access_key_secret=secret["AccessKeySecret"])
    provider = SimpleNamespace(get_credentials=lambda: found)
    prefix, uris = PREFIX.replace("s3://", "oss://"), [uri.replace("s3://", "oss://") for uri in URIS[:5]]

    def shown(sample: Any) -> tuple[str, bytes, str]:
        return sample.key, sample.read(), sample.label

    for kind in (ours.OssMapDataset, ours.OssIterableDataset):
        listed = kind.from_prefix(prefix, checks.endpoint, transform=shown, cred_path=str(stored), region="us-east-1")
        assert [each[:2] for each in listed] == [(f"/bucket/{key}", content) for key, content in CONTENTS.items()]
        named = kind.from_objects(uris, endpoint=checks.endpoint, transform=shown, cred_provider=provider)
        assert [key for key, _, _ in named] == [f"/bucket/{key}" for key in list(CONTENTS)[:5]]
        again = kind.from_objects(
            [key for key, _, _ in named], checks.endpoint, transform=shown, cred_provider=provider
        )
        assert list(again) == list(named), "the names that its objects have are names of objects"
        assert len(list(kind.from_prefix("/bucket/train/", checks.endpoint, cred_provider=provider))) == len(CONTENTS)
        for base in (prefix, "/bucket/train/"):
            labelled = kind.from_manifest_file(
                "oss://bucket/manifest.oss",
                lambda file: [tuple(line.decode().rstrip().split("\t")) for line in file],
                base,
                checks.endpoint,
                transform=shown,
                cred_provider=provider,
            )
            assert [(key, label) for key, _, label in labelled] == [
                ("/bucket/train/00.bin", "cat"),
                ("/bucket/train/05.bin", "dog"),
            ]
    wrong = SimpleNamespace(
        get_credentials=lambda: SimpleNamespace(access_key_id=secret["AccessKeyId"], access_key_secret="wrong")
    )
    refused = ours.OssMapDataset.from_objects(uris, checks.endpoint, cred_provider=wrong)
    with raised(AccessDenied, "SignatureDoesNotMatch"):
        refused[0].read()


@contextmanager
def environment_of_oss() -> Iterator[None]:
    """The keys of the environment are OSS's; those of AWS are of somebody else."""
    before = dict(os.environ)
    os.environ["OSS_ACCESS_KEY_ID"] = before["AWS_ACCESS_KEY_ID"]
    os.environ["OSS_ACCESS_KEY_SECRET"] = before["AWS_SECRET_ACCESS_KEY"]
    os.environ["AWS_ACCESS_KEY_ID"] = "somebody"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def check_uris_of_oss_are_read_as_oss(checks: Checks) -> None:
    """By the client that is made where none was passed: signed as OSS, with OSS's credentials."""
    manifest = checks.directory / "manifest.txt"
    manifest.write_text("".join(f"{uri.replace('s3://', 'oss://')}\n" for uri in URIS))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        made.addfile(tarfile.TarInfo("1.txt"), io.BytesIO())
    Client(checks.endpoint).put("bucket", "oss.tar", archive.getvalue())
    oss = [uri.replace("s3://", "oss://") for uri in URIS]
    with environment_of_oss():
        for dataset in (
            ours.ForebayMapDataset.from_prefix("oss://bucket/train/"),
            ours.ForebayIterableDataset.from_objects(iter(oss)),
            ours.ForebayMapDataset.from_manifest(manifest),
        ):
            assert [bytes(sample.view) for sample in dataset] == list(CONTENTS.values())
        assert [sample["txt"] for sample in ours.ShardDataset("oss://bucket/oss.tar")] == [b""]
        ours.save({"step": 7}, "oss://bucket/oss.pt")
        assert ours.load("oss://bucket/oss.pt") == {"step": 7}
        labelled = SimpleNamespace(samples=[(uri, 0) for uri in oss])
        client_for(labelled).plan("bucket", "oss", list(CONTENTS)).cancel()
        with raised(AccessDenied, "somebody|InvalidAccessKeyId"):
            len(ours.ForebayMapDataset.from_prefix(PREFIX))


def check_the_s3_pair_takes_the_connectors_arguments(checks: Checks) -> None:
    for mine, theirs in (
        (ours.S3MapDataset, s3torchconnector.S3MapDataset),
        (ours.S3IterableDataset, s3torchconnector.S3IterableDataset),
    ):
        for name in ("from_prefix", "from_objects"):
            wanted, taken = (inspect.signature(getattr(each, name)).parameters for each in (theirs, mine))
            assert [(each.name, each.kind) for each in wanted.values()] == [
                (each.name, each.kind) for each in taken.values()
            ], (mine, name)
        made = mine.from_prefix(PREFIX, region="eu-north-1", endpoint=checks.endpoint)
        public = {each for each in dir(theirs) if not each.startswith("_")}
        assert public - set(dir(made)) == set(), mine
        assert (made.region, made.endpoint) == ("eu-north-1", checks.endpoint)


def check_the_oss_pair_takes_the_connectors_arguments() -> None:
    for mine, theirs in (
        (ours.OssMapDataset, osstorchconnector.OssMapDataset),
        (ours.OssIterableDataset, osstorchconnector.OssIterableDataset),
    ):
        for name in ("from_prefix", "from_objects", "from_manifest_file"):
            wanted = inspect.signature(getattr(theirs, name)).parameters
            taken = set(inspect.signature(getattr(mine, name)).parameters) | set(
                inspect.signature(mine._of).parameters  # noqa: SLF001 # what `options` may be
            )
            assert set(wanted) - taken == set(), (mine, name)
            ours_first = [each for each in inspect.signature(getattr(mine, name)).parameters if each != "options"]
            assert list(wanted)[: len(ours_first) - 1] == ours_first[:-1], (mine, name)


def check_forebay_follows_the_plan_of_a_loader(checks: Checks) -> None:
    client = Client(checks.endpoint)
    dataset = ours.ForebayMapDataset.from_prefix(PREFIX, client=client, transform=lambda sample: sample.size)
    loader = ours.planned(DataLoader(dataset, batch_size=8, shuffle=True), name="job/rank-0")
    for epoch in (1, 2):
        sizes = [int(size) for batch in loader for size in batch]
        assert sorted(sizes) == [len(content) for content in CONTENTS.values()]
        progress = json.loads(bytes(client.get("bucket", f".forebay/plans/job/rank-0/epoch-{epoch}")))
        assert (progress["entries"], progress["dropped"]) == (COUNT, 0), progress
    assert (loader.batch_sampler.counts.sent, client.stats.ignored) == (2, {})


def check_the_examples_of_the_page_run(checks: Checks) -> None:
    client = Client(checks.endpoint)
    for number in range(40):
        client.put("demo", f"train/tensors/{number:05}.f32", bytes(number))
    page = (Path(__file__).parents[3] / "docs" / "pytorch.md").read_text()
    names: dict[str, object] = {}
    for example in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(example, "docs/pytorch.md", "exec"), names)
