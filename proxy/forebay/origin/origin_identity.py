"""Origin identities: principals whose requests to the origin carry their own credential."""

from dataclasses import dataclass

from forebay.origin.credentials import Credentials
from forebay.origin.origin_request import UNSIGNED, RequestCredential


@dataclass(frozen=True, slots=True)
class OriginIdentity:
    """A principal with a credential of its own at the origin. Where one is optional, None is Forebay itself."""

    id: str
    credentials: Credentials
    origins: tuple[str, ...] = ()
    """The names of the origins where it is used, Forebay's own at the others; none named: all of them."""


async def request_credential(identity: OriginIdentity | None) -> RequestCredential | None:
    """Returns the credential of requests with this identity. For None, Forebay itself, it is None; an identity without
    a key, as that of anonymous clients, has `Unsigned`. Raises OriginCredentialFault if there should be a key and is
    none."""
    if identity is None:
        return None
    return await identity.credentials.current() or UNSIGNED
