"""The samples of a WebDataset shard, and the names of shards.

    train-000000.tar    0001.jpg  0001.cls  0002.jpg  0002.cls ...
    samples             {"__key__": "0001", "__url__": ..., "jpg": bytes, "cls": bytes}, ...

https://github.com/webdataset/webdataset has the conventions. Members that are no files are skipped; so are those that
begin with a dot or stand in `__MACOSX`, and those without an extension.
"""

import itertools
import re
import tarfile
from collections.abc import Iterator
from typing import Any, Final

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_NUMBERS: Final = re.compile(r"(\d+)\.\.(\d+)")


def shard_samples(file: Any, url: str, *, skip: int = 0) -> Iterator[dict[str, Any]]:
    """The samples of a seekable TAR file behind the first `skip` of them, whose bodies are not read."""
    sample: dict[str, Any] = {}
    with tarfile.open(fileobj=file, mode="r:") as archive:
        for member in archive:
            split = split_member(member.name) if member.isfile() else None
            if split is not None:
                key, extension = split
                if sample and sample["__key__"] != key:
                    if skip == 0:
                        yield sample
                    skip, sample = max(0, skip - 1), {}
                sample.setdefault("__key__", key)
                sample.setdefault("__url__", url)
                if skip == 0:
                    content = archive.extractfile(member)
                    sample[extension] = content.read() if content is not None else b""
            # A shard of a million members would keep them all.
            archive.members.clear()  # type: ignore[attr-defined] # typeshed leaves it out
    if sample and skip == 0:
        yield sample


def split_member(name: str) -> tuple[str, str] | None:
    """The sample's key and the extension of a member: `a/b.c/0001.seg.png` is `a/b.c/0001` and `seg.png`."""
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not stem or not dot or not extension or "__MACOSX" in folder:
        return None
    return f"{folder}{slash}{stem}", extension.lower()


def expand_braces(pattern: str) -> list[str]:
    """The names that a pattern of shards stands for: `{000..127}`, with leading zeros, and `{a,b}`."""
    choices: list[list[str]] = []
    end = 0
    for braces in _BRACES.finditer(pattern):
        choices += [[pattern[end : braces.start()]], _choices(braces[1])]
        end = braces.end()
    return ["".join(parts) for parts in itertools.product(*choices, [pattern[end:]])]


def _choices(content: str) -> list[str]:
    numbers = _NUMBERS.fullmatch(content)
    if numbers is None:
        return content.split(",")
    first, last = map(int, numbers.groups())
    step = 1 if first <= last else -1
    return [str(number).zfill(len(numbers[1])) for number in range(first, last + step, step)]
