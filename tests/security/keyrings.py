"""The keyring of the tests in this folder that need no configuration."""

from typing import Final

from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.request.authentication import Keyring
from harness.reference_sigv4 import Secret

NOW: Final = 1_800_000_000.0
"""Seconds since the epoch, when everything here is signed."""
OWNER: Final = Secret("owner/key", "owner-secret+/=")
"""May do everything. A slash in an access key is allowed, and awkward."""
GUEST: Final = Secret("guest", "guest-secret", token="guest-token")
"""Temporary credentials."""


def keyring() -> Keyring:
    everything = (Grant(Pattern("**"), frozenset(Access)),)
    return Keyring(
        {each.access: SecretKey(each.access, each.secret, each.token) for each in (OWNER, GUEST)},
        {each.access: Principal(each.access, everything) for each in (OWNER, GUEST)},
    )
