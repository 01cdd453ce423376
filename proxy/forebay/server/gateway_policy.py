"""What the gateway decides by, made of the settings: keys, grants and rules. Made anew whenever they change."""

from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.access import Grant, Principal, principal_of
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.request.authentication import Keyring
from forebay.request.gateway import GatewayPolicy
from forebay.server.credential_settings import credentials_of
from forebay.settings.model import KeySettings, Settings

EVERYBODY = Principal("everybody", (Grant(Pattern("**"), frozenset(Access)),))


def gateway_policy(settings: Settings) -> GatewayPolicy:
    """What the gateway decides by."""
    server = settings.server
    return GatewayPolicy(_keyring(settings), Rules(settings.rules), server.domains, server.cnames)


def _keyring(settings: Settings) -> Keyring:
    if settings.auth.mode == "open":
        hosts = (*settings.server.domains, *settings.server.cnames)
        return Keyring({}, {}, EVERYBODY, tuple(host.lower() for host in hosts))
    keys = settings.auth.keys
    return Keyring(
        {key.id: _secret(key) for key in keys},
        {key.id: principal_of(key) for key in keys},
        origin_identities={
            key.id: OriginIdentity(key.id, credentials_of(key.origin)) for key in keys if key.origin is not None
        },
    )


def _secret(key: KeySettings) -> SecretKey:
    token = key.session_token.reveal() if key.session_token is not None else None
    return SecretKey(key.id, key.secret.reveal(), token)
