"""Forebay's own credential at the origin, next to those of its clients: whether it is used, and whose it is."""

from forebay.settings.model import ProviderChain, Settings


def needs_own_credential(settings: Settings) -> bool:
    """Whether any request of a client is signed with Forebay's own credential."""
    return settings.auth.mode == "open" or any(key.origin is None for key in settings.auth.keys)


def shared_key_warning(settings: Settings, access_key: str | None) -> str | None:
    """The warning about a key that was meant for a client and found its way into the provider chain; None: it is not.
    `access_key`: that Forebay uses."""
    if not isinstance(settings.origin.credentials, ProviderChain):
        return None
    if access_key not in {key.id for key in settings.auth.keys}:
        return None
    return (
        f"the AWS provider chain found {access_key} for the origin, which is one of auth.keys, a client's: perhaps by "
        "the AWS_* variables of the shell that started Forebay; set origin.access_key or origin.profile"
    )
