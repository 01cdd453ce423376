"""Makes the gateway's policy from settings: keys, grants, rules, and the credentials that requests are signed with.

Made from the start again whenever the settings change; a `GatewayPolicy` never changes itself.
"""

from forebay.origin import credentials as origin
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.grants import Grant, Principal, anonymous_principal, principal_of
from forebay.policy.origin_routes import routes_of
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.operations import Access
from forebay.protocol.response_headers import ISOLATION_HEADERS
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.request.admission import GatewayPolicy
from forebay.request.authentication import Keyring
from forebay.settings.model import (
    ANONYMOUS_ID,
    AnonymousAccess,
    KeySettings,
    OriginCredentials,
    Profile,
    Settings,
    StaticKey,
)

EVERYBODY = Principal("everybody", (Grant(Pattern("**"), frozenset(Access)),))
"""The principal of every request where `auth.mode` is "open"."""


def gateway_policy(settings: Settings) -> GatewayPolicy:
    """The policy that these settings, which are in force, make."""
    server = settings.server
    isolation = ISOLATION_HEADERS if settings.auth.mode == "open" else ()
    return GatewayPolicy(
        _keyring(settings),
        Rules(settings.rules),
        server.domains,
        server.cnames,
        routes=routes_of(settings),
        oss_origins=frozenset(
            position for position, origin in enumerate(settings.all_origins) if DIALECTS[origin.dialect].speaks_oss
        ),
        answers_pages=server.cors and settings.auth.mode == "keys",
        isolation_headers=isolation,
    )


def credentials_of(settings: OriginCredentials) -> origin.Credentials:
    """The credentials, as configured, in the form that signs requests to the origin."""
    match settings:
        case StaticKey(access_key, secret_key, session_token):
            token = session_token.reveal() if session_token is not None else None
            return origin.StaticCredentials(SecretKey(access_key, secret_key.reveal(), token))
        case AnonymousAccess():
            return origin.ANONYMOUS
        case Profile(name):
            return origin.CredentialChain(name)
        case _:
            return origin.CredentialChain()


def _keyring(settings: Settings) -> Keyring:
    if settings.auth.mode == "open":
        hosts = (*settings.server.domains, *settings.server.cnames)
        return Keyring({}, {}, EVERYBODY, tuple(host.lower() for host in hosts))
    keys, anonymous = settings.auth.keys, settings.auth.anonymous
    identities = {
        key.id: OriginIdentity(key.id, credentials_of(key.origin), key.origin_names)
        for key in keys
        if key.origin is not None
    }
    if anonymous is not None:
        identities[ANONYMOUS_ID] = OriginIdentity(ANONYMOUS_ID, origin.ANONYMOUS)
    return Keyring(
        {key.id: _secret(key) for key in keys},
        {key.id: principal_of(key) for key in keys},
        origin_identities=identities,
        anonymous=anonymous_principal(anonymous) if anonymous is not None else None,
    )


def _secret(key: KeySettings) -> SecretKey:
    token = key.session_token.reveal() if key.session_token is not None else None
    return SecretKey(key.id, key.secret.reveal(), token)
