"""Grants: the accesses that each principal has, on the paths that patterns match.

Pure look-ups. None of them lets a request through: that takes a Permit (forebay.policy.access). They serve to decide
what may be shown, or fetched ahead. Those about a prefix or a pattern are conservative: they demand one grant that
covers all of it, and False says nothing about a single key.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from forebay.core.names import RESERVED_PREFIX, ObjectName, is_reserved
from forebay.policy.path_patterns import Pattern, literal_prefix
from forebay.protocol.operations import Access
from forebay.settings.model import ANONYMOUS_ID, AnonymousClients, GrantSettings, KeySettings


@dataclass(frozen=True, slots=True)
class Grant:
    """The accesses allowed on the paths that a pattern matches."""

    pattern: Pattern
    allow: frozenset[Access]


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of an access key, and its grants."""

    id: str
    grants: tuple[Grant, ...]


def principal_of(key: KeySettings) -> Principal:
    """The principal of a configured access key."""
    return Principal(key.id, _grants(key.grants))


def anonymous_principal(clients: AnonymousClients) -> Principal:
    """The principal of requests that are not signed."""
    return Principal(ANONYMOUS_ID, _grants(clients.grants))


def _grants(settings: Iterable[GrantSettings]) -> tuple[Grant, ...]:
    return tuple(
        Grant(Pattern(grant.path), frozenset(Access[word.upper()] for word in grant.allow)) for grant in settings
    )


def reads_everything(principal: Principal) -> bool:
    """Whether one grant allows the principal to read every object of every bucket."""
    return any(Access.READ in grant.allow and grant.pattern.covers_prefix("") for grant in principal.grants)


def may_read(principal: Principal, name: ObjectName) -> bool:
    """Whether a grant lets the principal read an object."""
    return is_granted(principal, Access.READ, name)


def may_read_all_below(principal: Principal, bucket: str, prefix: str) -> bool:
    """Whether one grant covers reads of every key that begins with `prefix`, so that no key needs a look of its own."""
    if RESERVED_PREFIX.startswith(prefix) or is_reserved(prefix):
        return False
    return is_prefix_granted(principal, Access.READ, f"{bucket}/{prefix}")


def may_read_every_object_below(principal: Principal, bucket: str, prefix: str) -> bool:
    """Whether one grant covers reads of every object whose key begins with `prefix`. Forebay's own resources, which a
    prefix may contain, do not count."""
    return not is_reserved(prefix) and is_prefix_granted(principal, Access.READ, f"{bucket}/{prefix}")


def may_see_writes_below(principal: Principal, bucket: str, prefix: str) -> bool:
    """Whether one grant covers reads, or one covers writes, of every key that begins with `prefix`: its owner may know
    whether anything below it is pending."""
    return any(is_prefix_granted(principal, access, f"{bucket}/{prefix}") for access in (Access.READ, Access.WRITE))


def may_read_all_matched(principal: Principal, pattern: Pattern) -> bool:
    """Whether one grant covers reads of every object that the path of a rule can match."""
    return is_prefix_granted(principal, Access.READ, literal_prefix(pattern.text))


def is_granted(principal: Principal, access: Access, name: ObjectName) -> bool:
    """Whether a grant allows the access to an object."""
    path = name.path
    for grant in principal.grants:  # noqa: SIM110 # runs for every request: a generator costs as much as the rest
        if access in grant.allow and grant.pattern.matches(path):
            return True
    return False


def is_prefix_granted(principal: Principal, access: Access, prefix: str) -> bool:
    """Whether one grant allows the access to every path that begins with `prefix`."""
    return any(access in grant.allow and grant.pattern.covers_prefix(prefix) for grant in principal.grants)


def is_any_granted(principal: Principal, accesses: Iterable[Access], bucket: str) -> bool:
    """Whether a grant allows one of the accesses to something in the bucket."""
    wanted = frozenset(accesses)
    return any(grant.allow & wanted and grant.pattern.reaches_into(f"{bucket}/") for grant in principal.grants)
