"""Principals that have a credential of their own at a fake origin, which knows it and can refuse it."""

from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret

ALICE, BOB = Secret("alice", "alice-secret"), Secret("bob", "bob-secret")
ALICE_THERE, BOB_THERE = Secret("alicethere", "alices-own"), Secret("bobthere", "bobs-own")
OURS = Secret("forebaythere", "forebays-own")
KEYS = """
[auth]
authorization_ttl = "{ttl}"

[[auth.keys]]
id = "alice"
secret = "alice-secret"
origin_access_key = "alicethere"
origin_secret_key = "alices-own"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]

[[auth.keys]]
id = "bob"
secret = "bob-secret"
origin_access_key = "bobthere"
origin_secret_key = "bobs-own"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]

[[rules]]
path = "**"
freshness = "immutable"
warm_on_write = true
block = "64KiB"
"""


def fake() -> FakeOrigin:
    return FakeOrigin(secrets=(OURS, ALICE_THERE, BOB_THERE))


def refusing(origin: FakeOrigin, who: Secret, *held: actions.Action) -> None:
    """From here on the origin denies everything to `who`."""
    origin.faults.add(
        actions.FORBIDDEN,
        *held,
        where=lambda asked: f"Credential={who.access}/" in asked.headers.get("Authorization", ""),
    )
