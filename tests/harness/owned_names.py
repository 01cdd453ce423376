"""The owners of names by their hash."""

from forebay.core.names import ObjectName
from forebay.policy.ownership import hash_and_owner


def owner_of(name: ObjectName, workers: int) -> int:
    return hash_and_owner(name, workers)[1]
