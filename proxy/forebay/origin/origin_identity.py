"""Origin identities: principals whose requests to the origin carry their own credential."""

from dataclasses import dataclass

from forebay.origin.credentials import Credentials
from forebay.protocol.signatures.signing_key import SecretKey


@dataclass(frozen=True, slots=True)
class Asker:
    """A principal that asks the origin in its own name. Everywhere else None stands for Forebay itself."""

    id: str
    credentials: Credentials


async def key_of(asker: Asker | None) -> SecretKey | None:
    """What its requests are signed with; None: Forebay's own. Raises OriginUnreachable when it can't be had."""
    return await asker.credentials.current() if asker is not None else None
