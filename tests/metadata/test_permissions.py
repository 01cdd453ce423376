"""Permissions: kept for their ttl, and never after a refusal."""

from forebay.core.fences import Fences
from forebay.core.names import ObjectName
from forebay.metadata.permissions import Permissions
from forebay.origin.credentials import ANONYMOUS, StaticCredentials
from forebay.origin.origin_identity import OriginIdentity

NAME, OTHER = ObjectName("bucket", "key"), ObjectName("bucket", "other")
OWN, STRANGER = OriginIdentity("asker", ANONYMOUS), OriginIdentity("stranger", ANONYMOUS)
START = Fences().now()


def test_a_permission_expires_after_its_ttl() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    assert permissions.is_allowed(OWN, NAME, 1000.0)
    assert permissions.is_allowed(OWN, NAME, 1059.9)
    assert not permissions.is_allowed(OWN, NAME, 1060.0)


def test_a_permission_is_of_one_identity_and_one_object() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    assert not permissions.is_allowed(STRANGER, NAME, 1000.0)
    assert not permissions.is_allowed(OWN, OTHER, 1000.0)


def test_a_refusal_revokes_a_permission() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    permissions.revoke(OWN, NAME)
    permissions.revoke(OWN, OTHER)
    assert not permissions.is_allowed(OWN, NAME, 1000.0)


def test_a_permission_can_be_renewed_after_the_clock_was_set_back() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 5000.0, START)
    permissions.allow(OWN, NAME, 1000.0, START)
    assert permissions.is_allowed(OWN, NAME, 1000.0)


def test_a_write_revokes_even_permissions_requested_before_it() -> None:
    fences = Fences()
    permissions = Permissions(60.0, fences)
    permissions.allow(OWN, NAME, 1000.0, before := fences.now())
    permissions.allow(OWN, OTHER, 1000.0, before)
    fences.raise_object(NAME)
    assert (permissions.is_allowed(OWN, NAME, 1000.0), permissions.is_allowed(OWN, OTHER, 1000.0)) == (False, True)
    permissions.allow(OWN, NAME, 1000.0, before)
    assert not permissions.is_allowed(OWN, NAME, 1000.0)
    permissions.allow(OWN, NAME, 1000.0, fences.now())
    assert permissions.is_allowed(OWN, NAME, 1000.0)


def test_a_permission_is_of_one_credential() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    assert not permissions.is_allowed(OriginIdentity(OWN.id, StaticCredentials(None)), NAME, 1000.0)


def test_without_a_ttl_no_permission_holds() -> None:
    permissions = Permissions(0.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    assert not permissions.is_allowed(OWN, NAME, 1000.0)


def test_a_permission_from_the_future_is_ignored() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    assert not permissions.is_allowed(OWN, NAME, 999.0)


def test_the_oldest_permission_is_evicted_first() -> None:
    permissions = Permissions(60.0, Fences(), capacity=2)
    for number in range(3):
        permissions.allow(OWN, ObjectName("bucket", str(number)), 1000.0, START)
    assert len(permissions) == 2
    assert not permissions.is_allowed(OWN, ObjectName("bucket", "0"), 1000.0)
    assert permissions.is_allowed(OWN, ObjectName("bucket", "2"), 1000.0)


def test_a_renewed_permission_is_not_the_first_to_be_evicted() -> None:
    permissions = Permissions(60.0, Fences(), capacity=2)
    for name in (NAME, OTHER, NAME, ObjectName("bucket", "third")):
        permissions.allow(OWN, name, 1000.0, START)
    assert len(permissions) == 2
    assert (permissions.is_allowed(OWN, NAME, 1000.0), permissions.is_allowed(OWN, OTHER, 1000.0)) == (True, False)


def test_cleared_permissions_allow_nothing() -> None:
    permissions = Permissions(60.0, Fences())
    permissions.allow(OWN, NAME, 1000.0, START)
    permissions.clear()
    assert not permissions.is_allowed(OWN, NAME, 1000.0)
