"""Admission: the one way in, for every lane and every transport.

    facts of a request ──> authenticate ──> translate ──> classify ──> authorise ──> decide ──> Admission
                           Proof            S3's terms    Operation    Permit        Decision

- authenticate: the signature, verified against the request as it came; or a proof by a head template
  (forebay.server.fastpath.head_template), which has verified it.
- translate: an OSS request becomes the S3 request for the same (forebay.protocol.oss.oss_request); of an S3 request,
  headers that a presigned URL carries in its query become headers (forebay.protocol.hoisted_headers).
  Everything after this step sees S3's terms only.
- classify: the operation that the request asks for.
- authorise: a Permit by the principal's grants, or AccessDenied.
- decide: the first rules that match the object.

Invariants: the steps run in this order, none can be skipped, and the first that fails raises: nothing is looked up for
a request that is not allowed. Steps that have had their result, for the same headers under the same policy, are not
repeated for another key (`EntryAdmission`, `UnsignedReads`). A Permit comes out of `policy.access` alone, and the read
path demands it (`ObjectReader.answer`, the fast lane). An Admission is good for the request it was made from, under its
policy.

Not here: parsing the head and the target, CORS preflights and the body of a form upload (forebay.request.gateway,
forebay.request.form_upload). The keys of DeleteObjects are authorised when its body is known
(forebay.policy.access.authorise_keys).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName, is_reserved
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.access import RESOURCE_LISTINGS, Permit, ReadPermits, authorise
from forebay.policy.grants import Principal
from forebay.policy.origin_routes import SINGLE_ORIGIN, OriginRoutes
from forebay.policy.rules import Decision, Rules
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.hoisted_headers import hoist_query_headers
from forebay.protocol.operations import PLAIN_GET, Operation, classify
from forebay.protocol.oss.oss_request import OssRequest, to_s3_request
from forebay.protocol.read_variants import PLAIN, ReadVariant
from forebay.protocol.signatures.dialect_detection import speaks_oss
from forebay.protocol.signatures.verified_signature import Signed, SignedOss
from forebay.protocol.target import Target
from forebay.request.authentication import Keyring, Proof, authenticate


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """The configuration that requests are admitted by. Replaced whole when it changes, so `is` compares two of them."""

    keyring: Keyring
    rules: Rules
    domains: tuple[str, ...]
    cnames: Mapping[str, str]
    routes: OriginRoutes = SINGLE_ORIGIN
    oss_origins: frozenset[int] = frozenset()
    """The origins that are OSS, whose ETags are passed as they are to clients that speak OSS: by `routes`."""
    answers_pages: bool = False
    """Whether requests of web pages get the CORS headers of the bucket, and preflights are answered."""
    isolation_headers: HeaderPairs = ()
    """Headers of every response, which keep browsers from treating objects as pages; none where requests are signed."""

    def has_oss_origin(self, bucket: str | None) -> bool:
        """Whether the origin of `bucket` is OSS. None, for requests about no bucket: whether every origin is."""
        if bucket is None:
            return len(self.oss_origins) == len(self.routes.names)
        return self.routes.position_of(bucket) in self.oss_origins

    def identity_of(self, principal: str, bucket: str | None) -> OriginIdentity | None:
        """Returns the identity whose credential the principal's requests about `bucket` carry; None for Forebay's
        own."""
        identity = self.keyring.origin_identities.get(principal)
        if identity is None or not identity.origins or bucket is None:
            return identity
        return identity if self.routes.name_of(bucket) in identity.origins else None


class Admission(NamedTuple):
    """A request that may be carried out, and how."""

    policy: GatewayPolicy
    method: str
    target: Target
    """The target in S3's terms, like the headers."""
    headers: Headers
    principal: Principal
    signed: Signed | None
    """The verified signature; None in open mode, for a form upload, and for an anonymous request."""
    oss_request: OssRequest | None
    """The request in OSS's terms; None where the client speaks S3."""
    operation: Operation
    permit: Permit
    decision: Decision | None
    """The rules' decision for the object; None if the target is no object."""
    identity: OriginIdentity | None
    """The identity whose credential requests to the origin carry; None for Forebay's own."""
    name: ObjectName | None
    """The name of the object; None where the target is none."""

    @property
    def variant(self) -> ReadVariant | None:
        """The variant of a read that a cache may answer; None for all other requests."""
        return PLAIN if self.operation.is_plain_read else self.operation.variant

    @property
    def is_for_resource(self) -> bool:
        """Whether it is about Forebay's own resources (request.resource_router), which are never forwarded."""
        key = self.target.key
        if key is not None:
            return is_reserved(key)
        return self.operation.name in RESOURCE_LISTINGS and is_reserved(self.target.param("prefix") or "")

    @property
    def is_accelerated(self) -> bool:
        """Whether the rules let a cache answer."""
        return self.decision is not None and self.decision.accelerate


class KnownHead(Protocol):
    """The head of a request that can be compared with the heads of earlier, admitted requests of the same client
    (forebay.server.fastpath.upload_heads)."""

    def prove(self, policy: GatewayPolicy, target: Target, now: float) -> Proof | None:
        """Returns the proof of the signature, verified at `now` under `policy`. None: no earlier head matches, so the
        request has to be authenticated."""
        ...

    def learn(self, target: Target, admission: Admission) -> None:
        """Keeps the head for comparison with later ones, after the request was authenticated and admitted. `target`:
        as it was received."""


def admit(
    policy: GatewayPolicy,
    method: str,
    target: Target,
    headers: Headers,
    now: float,
    *,
    record: RequestRecord | None = None,
    proof: Proof | None = None,
) -> Admission:
    """Admits a request, or raises S3Error by the first step that refuses it.

    `target`, `headers`: as they were received; `now`: seconds since the epoch; `record`: gets the name of each step,
    None for a request that is not recorded; `proof`: of a signature that was verified already.
    """
    if record is not None:
        record.step = "authenticate"
    if proof is None:
        proof = authenticate(policy.keyring, method, target, headers, now)
    if record is not None:
        record.principal = proof.principal.id
    oss_request = _in_s3_terms(policy, method, target, headers, proof.signed)
    if oss_request is not None:
        target, headers = oss_request.target, oss_request.headers
    else:
        target, headers = hoist_query_headers(target, headers)
    return _authorised(policy, method, target, headers, proof, oss_request, record)


class AdmittedEntry(NamedTuple):
    """The object that an entry of a batch stands for, once its read is admitted."""

    name: ObjectName
    permit: Permit
    decision: Decision


class EntryAdmission:
    """Admits the plain GETs that the entries of one admitted batch stand for, key by key, under the batch's policy and
    for its principal. Steps with the same result for all entries run once."""

    __slots__ = ("_batch", "_bucket", "_decide", "_permits")

    def __init__(self, batch: Admission) -> None:
        self._batch, self._bucket = batch, batch.target.bucket or ""
        self._permits = ReadPermits(batch.principal, self._bucket)
        self._decide = batch.policy.rules.decide

    def admit(self, key: str) -> AdmittedEntry | None:
        """The object that `key` names; None where a GET of it would be denied."""
        name = ObjectName(self._bucket, key)
        permit = self._permits.permit(name)
        return AdmittedEntry(name, permit, self._decide(name)) if permit is not None else None

    def admission(self, entry: AdmittedEntry, headers: Headers) -> Admission:
        """The admission of the GET. `headers`: its own, in S3's terms."""
        batch, (bucket, key) = self._batch, entry.name
        target, permit, decision = Target("", "", bucket, key, ()), entry.permit, entry.decision
        principal, identity = batch.principal, batch.identity
        return Admission(
            batch.policy,
            "GET",
            target,
            headers,
            principal,
            None,
            None,
            PLAIN_GET,
            permit,
            decision,
            identity,
            entry.name,
        )


class UnsignedReads:
    """Admits plain GETs without a signature and a query, which have the headers of one that was admitted, under the
    same policy. Of the steps, only those that depend on the key are left: the others would have the same results."""

    __slots__ = ("_bucket", "_first", "_permits")

    def __init__(self, first: Admission) -> None:
        """`first`: headers that `is_repeatable` accepts."""
        self._first, self._bucket = first, first.target.bucket or ""
        self._permits = ReadPermits(first.principal, self._bucket)

    @staticmethod
    def is_repeatable(first: Admission) -> bool:
        """Whether an admission depends on nothing but the policy, the headers and the target."""
        return (
            first.operation is PLAIN_GET
            and first.signed is None
            and first.oss_request is None
            and not first.target.query
            and not first.target.raw_query
            and first.name is not None
        )

    def admit(self, target: Target) -> Admission | None:
        """The admission of the GET of `target`; None: it has to be admitted in full, which may refuse it."""
        if target.bucket != self._bucket or target.key is None or target.raw_query:
            return None
        name = ObjectName(self._bucket, target.key)
        permit = self._permits.permit(name)
        if permit is None:
            return None
        policy, _, _, headers, principal, _, _, operation, _, _, identity, _ = self._first
        decision = policy.rules.decide(name)
        return Admission(
            policy, "GET", target, headers, principal, None, None, operation, permit, decision, identity, name
        )


def admit_form(policy: GatewayPolicy, principal: Principal, target: Target, headers: Headers) -> Admission:
    """Admits the PutObject that a form upload stands for, or raises S3Error. `principal`: who signed the form's policy,
    which allows the form."""
    if is_reserved(target.key or ""):
        raise S3Error("NotImplemented", "A form can't be uploaded to one of Forebay's own resources; PUT it.")
    return _authorised(policy, "PUT", target, headers, Proof(principal, None), None, None)


def _in_s3_terms(
    policy: GatewayPolicy, method: str, target: Target, headers: Headers, signed: Signed | None
) -> OssRequest | None:
    """Returns the translation of an OSS request; None for an S3 request. Raises S3Error for an operation that S3
    lacks."""
    oss = speaks_oss(target, headers)
    if signed is not None and isinstance(signed, SignedOss) is not oss:
        # What the signature of one dialect covers is not what the other obeys.
        raise S3Error("InvalidArgument", "A request is signed in the dialect that it speaks.")
    return to_s3_request(method, target, headers, origin_is_oss=policy.has_oss_origin(target.bucket)) if oss else None


def _authorised(
    policy: GatewayPolicy,
    method: str,
    target: Target,
    headers: Headers,
    proof: Proof,
    oss_request: OssRequest | None,
    record: RequestRecord | None,
) -> Admission:
    """The steps after authentication, in S3's terms."""
    principal, signed = proof
    if record is not None:
        record.step = "authorise"
    operation = classify(method, target, headers)
    if record is not None:
        record.operation = operation.name
    source = parse_copy_source(headers)
    permit = authorise(principal, operation, target, source=source.name if source is not None else None)
    if record is not None:
        record.step = "rule"
    name = target.name if target.key is not None else None
    decision = policy.rules.decide(name) if name is not None else None
    if record is not None and decision is not None:
        record.rule = decision.rule
    identity = policy.identity_of(principal.id, target.bucket)
    return Admission(
        policy, method, target, headers, principal, signed, oss_request, operation, permit, decision, identity, name
    )
