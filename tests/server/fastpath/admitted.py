"""An admitted read and a head for it, for the tests of the fast lane's parts."""

from typing import Final

from multidict import CIMultiDict

from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.target import Target, parse_target
from forebay.request.admission import Admission, GatewayPolicy, admit
from forebay.request.authentication import Keyring
from forebay.server.fastpath.prepared_response import PreparedResponse
from harness.clients import RawRequest
from harness.reference_sigv4 import Secret
from security.keyrings import NOW
from security.oss_signers import ALL_SIGNERS
from security.signers import Form, Pairs

HEADER: Final = ("SignedV4", "header")
KEY: Final = Secret("reader", "reader-secret")
READER: Final = Principal("reader", (Grant(Pattern("**"), frozenset({Access.READ})),))
POLICY: Final = GatewayPolicy(
    Keyring({"reader": SecretKey("reader", "reader-secret")}, {"reader": READER}), Rules(()), (), {}
)
NAME: Final = ObjectName("b", "key")
MODIFIED: Final = "Wed, 18 Nov 1998 10:00:00 GMT"


def signed(form: Form = HEADER, pairs: Pairs = (), method: str = "GET", path: str = "/b/key") -> RawRequest:
    """A request for the object, signed at NOW."""
    return ALL_SIGNERS[form](KEY, method, path, pairs, b"", NOW, None)


def admitted(request: RawRequest) -> tuple[Target, CIMultiDict[str], Admission]:
    """Target and headers as received, and the admission."""
    headers = CIMultiDict(request.pairs)
    target = parse_target(request.target, headers["Host"], ())
    return target, headers, admit(POLICY, request.method, target, headers, NOW)


def head_of(size: int, block: int = 1 << 20, **headers: str) -> Head:
    """A head of the object, validated at NOW."""
    facts = ObjectFacts(Version('"etag"'), size, MODIFIED, tuple(headers.items()))
    return Head(facts, block, Generation(b"8 bytes!"), NOW)


def prepared(size: int, block: int = 1 << 20, request: RawRequest | None = None, **headers: str) -> PreparedResponse:
    """The prepared response to `request`."""
    _, _, admission = admitted(request or signed())
    assert admission.decision is not None
    return PreparedResponse(admission, admission.decision, head_of(size, block, **headers))


def block_id(number: int) -> BlockId:
    """A block of the object."""
    return BlockId(NAME, Generation(b"8 bytes!"), number)
