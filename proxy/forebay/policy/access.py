"""Access: grants (forebay.policy.grants) in, a Permit or AccessDenied out. Denied unless a grant allows it.

The only module that allows anything, and the only one that makes a Permit. Reads of the cache take the Permit as an
argument; forwarded requests and writes are made from the admission that holds it (forebay.request.admission).

    request                                               what a grant must allow
    an object                                             operation.access on its path
    CopyObject, UploadPartCopy                            also READ on the source
    DeleteObjects, before its body is read                DELETE on something in the bucket, or what a resource needs;
                                                          the permit covers no key
    DeleteObjects, its keys known                         DELETE on every one of them; below `.forebay/` what a DELETE
                                                          of that key needs (`authorise_resources`)
    a listing (LISTINGS) with `prefix=`                   LIST on everything under bucket/prefix, by one grant
    HeadBucket, GetBucketLocation                         anything on anything in the bucket: SDKs probe before they
                                                          read, and a bucket's users know that it exists
    any other bucket operation, CreateBucket too          operation.access on the whole bucket, by one grant
    the service (ListBuckets)                             operation.access on `**`
    an unknown operation (`UnknownGet`)                   as any other of its level, by the access of its method
    an access that is none of Access                      never allowed
    GET, HEAD, PUT, DELETE and a multipart upload of a    READ on anything in the bucket, by a key of its own: a
    key below `.forebay/`, a listing with                 resource shows and does only what its owner could read
    `prefix=.forebay/...`
    GetBatch, the POST of `.forebay/batch`                READ on anything in the bucket, also without a key; each
                                                          object that it lists is admitted by itself (`permit_read`)
    any other operation on such a key, or with one as     nobody: it would reach the origin
    the source of a copy

A listing with two prefixes is denied: the origin might list the prefix that was not authorised.
"""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from typing import Final, NoReturn

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import S3Error, access_denied
from forebay.core.names import RESERVED_PREFIX, ObjectName, is_reserved
from forebay.policy.grants import Principal, is_any_granted, is_granted, is_prefix_granted
from forebay.protocol.operations import Access, Effect, Operation
from forebay.protocol.target import Target
from forebay.settings.model import ANONYMOUS_ID

LISTINGS: Final = frozenset({"ListObjects", "ListObjectsV2", "ListObjectVersions", "ListMultipartUploads"})
COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
PROBES: Final = frozenset({"HeadBucket", "GetBucketLocation"})
RESOURCE_OPERATIONS: Final = frozenset(
    {
        *("GetObject", "HeadObject", "PutObject", "DeleteObject"),
        *("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload"),
        "ListParts",
        "GetBatch",
    }
)
"""The accesses to one of Forebay's own resources."""
RESOURCE_LISTINGS: Final = frozenset({"ListObjects", "ListObjectsV2"})

_SEAL: Final = object()

_STEP_SIZE: Final = 4096
"""Characters of keys times grants that are matched before a yield: half a millisecond at worst."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Every object of `bucket` whose key starts with `prefix`; with an empty prefix, the bucket itself too."""

    bucket: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Permit:
    """The proof that a principal may do one thing.

    Only `authorise` and `authorise_keys` make it; it cannot be copied into another one.
    """

    principal: str
    operation: str
    access: Access
    scope: frozenset[ObjectName] | Prefix | None
    """The objects it is good for; None for the service, or for a bucket's name without its contents."""
    source: ObjectName | None
    """The object that a copy may read."""
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("a permit is made by authorise() and authorise_keys() alone")

    def covers(self, name: ObjectName) -> bool:
        """Whether `access` to this object is proved."""
        match self.scope:
            case None:
                return False
            case Prefix(bucket, prefix):
                return name.bucket == bucket and name.key.startswith(prefix)
            case names:
                return name in names


def authorise(
    principal: Principal,
    operation: Operation,
    target: Target,
    *,
    source: ObjectName | None = None,
) -> Permit:
    """The permit for `operation` on `target`. Raises S3Error AccessDenied.

    `source`: the object that a copy reads. The keys of DeleteObjects are authorised when they are known
    (`authorise_keys`).
    """
    access = operation.access
    if not isinstance(access, Access):
        raise S3Error("AccessDenied")
    scope: frozenset[ObjectName] | Prefix | None
    match operation.level:
        case "object":
            scope = _object_scope(principal, operation, target, source)
        case "bucket":
            scope = _bucket_scope(principal, operation, target)
        case "service" if target.bucket is None and is_prefix_granted(principal, access, ""):
            scope = None
        case _:
            _deny(principal, operation, _path_of(target))
    return Permit(principal.id, operation.name, access, scope, source, _SEAL)


def authorise_keys(
    principal: Principal, operation: Operation, target: Target, keys: Sequence[str]
) -> CooperativeWork[Permit]:
    """The permit for DeleteObjects with `keys`. Raises S3Error AccessDenied if one of them is not granted.

    Yields between steps: a client chooses the keys, and matching a pattern takes time for each character.
    """
    permit = authorise(principal, operation, target)
    bucket = target.bucket
    if operation.effect is not Effect.LISTED_KEYS or bucket is None:
        _deny(principal, operation, _path_of(target))
    if any(is_reserved(key) for key in keys):
        raise _not_a_resource_operation()
    names = frozenset(ObjectName(bucket, key) for key in keys)
    steps = 0
    for name in names:
        if not is_granted(principal, permit.access, name):
            _deny(principal, operation, name.path)
        steps += len(principal.grants) * len(name.key)
        if steps > _STEP_SIZE:
            steps = 0
            yield
    return Permit(principal.id, operation.name, permit.access, names, permit.source, _SEAL)


def permit_read(principal: Principal, name: ObjectName) -> Permit | None:
    """The permit to read an object ahead of the principal's own request; None where a request would be denied."""
    if is_reserved(name.key) or not is_granted(principal, Access.READ, name):
        return None
    return Permit(principal.id, "GetObject", Access.READ, frozenset({name}), None, _SEAL)


class ReadPermits:
    """The permits of one principal to read keys of one bucket. A grant that covers all of the bucket is found once."""

    __slots__ = ("_all", "_principal")

    def __init__(self, principal: Principal, bucket: str) -> None:
        self._principal = principal
        self._all: Permit | None = None
        if is_prefix_granted(principal, Access.READ, f"{bucket}/"):
            self._all = Permit(principal.id, "GetObject", Access.READ, Prefix(bucket, ""), None, _SEAL)

    def permit(self, name: ObjectName) -> Permit | None:
        """The permit to read an object, good if it covers the object's bucket; None where a request would be denied."""
        permit = self._all
        if permit is not None and not is_reserved(name.key):
            return permit
        return permit_read(self._principal, name)


def _object_scope(
    principal: Principal, operation: Operation, target: Target, source: ObjectName | None
) -> frozenset[ObjectName]:
    if target.bucket is None or target.key is None:
        _deny(principal, operation, _path_of(target))
    name = target.name
    if is_reserved(name.key):
        _authorise_resource(principal, operation, name.bucket, RESOURCE_OPERATIONS)
        return frozenset({name})
    if not is_granted(principal, operation.access, name):
        _deny(principal, operation, name.path)
    # A copy whose source is not known must not be allowed for the sake of its destination.
    if operation.name in COPIES and source is None:
        _deny(principal, operation, "a source that is not given", Access.READ)
    if source is not None and is_reserved(source.key):
        raise _not_a_resource_operation()
    if source is not None and not is_granted(principal, Access.READ, source):
        _deny(principal, operation, source.path, Access.READ)
    return frozenset({name})


def _bucket_scope(principal: Principal, operation: Operation, target: Target) -> frozenset[ObjectName] | Prefix | None:
    bucket = target.bucket
    if bucket is None or target.key is not None:
        _deny(principal, operation, _path_of(target))
    if operation.effect is Effect.LISTED_KEYS:
        if not is_any_granted(principal, {operation.access}, bucket) and not _may_have_resources(principal, bucket):
            _deny(principal, operation, f"{bucket}/")
        return frozenset()
    if operation.name in PROBES:
        if not is_any_granted(principal, Access, bucket):
            _deny(principal, operation, f"{bucket}/")
        return None
    prefixes = _listed_prefixes(target) if operation.name in LISTINGS else []
    prefix = prefixes[0] if prefixes else ""
    if len(prefixes) == 1 and is_reserved(prefix):
        _authorise_resource(principal, operation, bucket, RESOURCE_LISTINGS)
        return Prefix(bucket, prefix)
    if len(prefixes) > 1 or not is_prefix_granted(principal, operation.access, f"{bucket}/{prefix}"):
        _deny(principal, operation, f"{bucket}/{prefix}**")
    return Prefix(bucket, prefix)


def _authorise_resource(principal: Principal, operation: Operation, bucket: str, allowed: frozenset[str]) -> None:
    """Raises S3Error unless the principal may have resources in `bucket`, and the operation is `allowed` on one."""
    needs_owner = operation.name != "GetBatch"
    if not _may_have_resources(principal, bucket, needs_owner=needs_owner):
        _deny(principal, operation, f"{bucket}/", Access.READ)
    if operation.name not in allowed:
        raise _not_a_resource_operation()


def authorise_resources(principal: Principal, operation: Operation, bucket: str) -> None:
    """Raises S3Error AccessDenied unless the principal may delete resources of its own in `bucket` by a batch."""
    _authorise_resource(principal, operation, bucket, frozenset({"DeleteObjects"}))


def _may_have_resources(principal: Principal, bucket: str, *, needs_owner: bool = True) -> bool:
    if needs_owner and principal.id == ANONYMOUS_ID:
        return False
    return is_any_granted(principal, {Access.READ}, bucket)


def _not_a_resource_operation() -> S3Error:
    return S3Error(
        "NotImplemented",
        f"Keys that begin with {RESERVED_PREFIX} are Forebay's own resources, not objects: one is read by GET or HEAD, "
        "sent by PUT or a multipart upload, removed by DELETE or DeleteObjects, and listed by ListObjects.",
    )


def _path_of(target: Target) -> str:
    return f"{target.bucket or ''}/{target.key or ''}"


def _listed_prefixes(target: Target) -> list[str]:
    return [value for name, value in target.query if name == "prefix"]


def _deny(principal: Principal, operation: Operation, path: str, access: Access | None = None) -> NoReturn:
    """Raises AccessDenied. `path`: the path without a grant of `access`, which is the operation's by default."""
    word = (operation.access if access is None else access).name.lower()
    raise access_denied(f"{operation.name}: key {principal.id} has no grant with {word} for {path!r}")
