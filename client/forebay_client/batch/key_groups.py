"""The keys of a batch, in groups of one request each.

keys, drawn as they are wanted ──> KeyGroup ──> the document of its request
                                      └── apart: keys for which a server would refuse the whole request
"""

from collections.abc import Iterable, Iterator, Sequence
from types import NoneType
from typing import Final, NamedTuple, TypeAlias

from forebay.protocol.batch.batch_request import (
    MAX_POSITION,
    BatchEntry,
    BatchRequest,
    batch_document,
    is_name,
    is_plain_name,
)
from forebay_client.batch.local_batches import NumberedKey
from forebay_client.objects import BatchKey, end_of, index_of

GROUP: Final = 512
"""Keys of one request: enough that a round trip is nothing to them, few enough that a failure repeats little."""
_GROUP_TEXT: Final = 48 << 10
"""Characters of the keys of one request, so that a read channel carries it."""
_EXTRA_TEXT: Final = 8
"""Characters in a document beside each key."""


NumberedKeys: TypeAlias = Sequence[NumberedKey]


class KeyGroup(NamedTuple):
    """Keys of one request."""

    keys: NumberedKeys
    apart: dict[int, BatchKey]
    """Keys between them that no batch has, by number."""


def key_groups(keys: Iterable[str | BatchKey]) -> Iterator[KeyGroup]:
    """The keys in groups of one request each. Raises ValueError, TypeError for a key that can't be read by anybody."""
    group, apart = list[NumberedKey](), dict[int, BatchKey]()
    size = 0
    for index, listed in enumerate(keys):
        if is_plain_name(listed):  # as most are
            group.append((index, key := BatchKey(listed)))
        else:
            key = BatchKey(listed) if isinstance(listed, str) else _checked(listed)
            if _is_apart(key):
                apart[index] = key
            else:
                group.append((index, key))
        size += len(key.key) + _EXTRA_TEXT
        if len(group) + len(apart) == GROUP or size >= _GROUP_TEXT:
            yield KeyGroup(group, apart)
            group, apart, size = [], {}, 0
    if group or apart:
        yield KeyGroup(group, apart)


def group_document(keys: NumberedKeys, *, ordered: bool) -> bytes:
    """The request of these keys."""
    entries = tuple([BatchEntry(*key) for _, key in keys])
    return batch_document(BatchRequest(entries, as_they_come=not ordered))


def _checked(checked: object) -> BatchKey:
    if not isinstance(checked, BatchKey) or not isinstance(checked.key, str):
        raise TypeError(f"a key is a str or a BatchKey, not {checked!r}")
    if type(checked.start) is not int or type(checked.end) not in {int, NoneType}:  # of numpy, for instance
        checked = checked._replace(start=index_of(checked.start), end=end_of(checked.end))
    if checked.start < 0 or (checked.end is not None and checked.end < checked.start):
        raise ValueError(f"no range: {checked.start}-{checked.end}")
    return checked


def _is_apart(key: BatchKey) -> bool:
    """Whether no batch has the key: no byte of it is wanted, or it is no name or no place in an object, for which all
    would be refused."""
    is_named = is_name(key.key) and (key.member is None or is_name(key.member))
    return key.start == key.end or not is_named or max(key.start, key.end or 0) > MAX_POSITION
