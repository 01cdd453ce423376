"""The owners of names by their hash."""

from forebay.core.names import ObjectName
from forebay.policy.ownership import hash_of, owner_by_hash


def owner_of(name: ObjectName, workers: int) -> int:
    return owner_by_hash(hash_of(name), workers)
