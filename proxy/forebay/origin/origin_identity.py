"""Origin identities: principals whose requests to the origin carry their own credential."""

from dataclasses import dataclass

from forebay.origin.credentials import Credentials
from forebay.protocol.signatures.signing_key import SecretKey


@dataclass(frozen=True, slots=True)
class OriginIdentity:
    """A principal with a credential of its own at the origin. Where one is optional, None is Forebay itself."""

    id: str
    credentials: Credentials


async def secret_key_of(identity: OriginIdentity | None) -> SecretKey | None:
    """The key that signs its requests; None: Forebay's own. Raises OriginCredentialFault if there is none."""
    return await identity.credentials.current() if identity is not None else None
