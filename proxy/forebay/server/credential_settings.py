"""From credentials as they are configured to credentials that requests to the origin are signed with."""

from forebay.origin import credentials as origin
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.settings.model import Anonymous, Credentials, Profile, StaticKey


def credentials_of(settings: Credentials) -> origin.Credentials:
    match settings:
        case StaticKey(access_key, secret_key, session_token):
            token = session_token.reveal() if session_token is not None else None
            return origin.StaticCredentials(SecretKey(access_key, secret_key.reveal(), token))
        case Anonymous():
            return origin.ANONYMOUS
        case Profile(name):
            return origin.CredentialChain(name)
        case _:
            return origin.CredentialChain()
