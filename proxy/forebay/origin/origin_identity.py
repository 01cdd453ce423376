"""Origin identities: principals whose requests to the origin carry their own credential."""

from dataclasses import dataclass

from forebay.origin.credentials import Credentials
from forebay.protocol.signatures.signing_key import SecretKey


@dataclass(frozen=True, slots=True)
class OriginIdentity:
    """A principal that asks the origin in its own name. Everywhere else None stands for Forebay itself."""

    id: str
    credentials: Credentials


async def secret_key_of(identity: OriginIdentity | None) -> SecretKey | None:
    """What its requests are signed with; None: Forebay's own. Raises OriginUnreachable when it can't be had."""
    return await identity.credentials.current() if identity is not None else None
