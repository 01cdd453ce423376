"""Forebay's own credential at an origin, next to those of its clients: whether it is used, and whose it is."""

from forebay.core.events import origin_suffix
from forebay.settings.model import OriginSettings, ProviderChain, Settings


def needs_own_credential(settings: Settings, origin: OriginSettings) -> bool:
    """Whether any request of a client to `origin` is signed with Forebay's own credential."""
    return settings.auth.mode == "open" or any(not key.has_credential_at(origin.name) for key in settings.auth.keys)


def shared_key_warning(settings: Settings, origin: OriginSettings, access_key: str | None) -> str | None:
    """The warning about a key that was meant for a client and found its way into the provider chain; None: it is not.
    `access_key`: that Forebay uses at `origin`."""
    if not isinstance(origin.credentials, ProviderChain):
        return None
    if access_key not in {key.id for key in settings.auth.keys}:
        return None
    table = "origin" if origin is settings.origin else "origins[]"
    return (
        f"the AWS provider chain found {access_key} for the origin{origin_suffix(origin.name)}, which is one of "
        "auth.keys, a client's: perhaps by the AWS_* variables of the shell that started Forebay; "
        f"set {table}.access_key or {table}.profile"
    )
