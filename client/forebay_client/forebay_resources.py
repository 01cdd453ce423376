"""Forebay's resources beyond S3, as objects below `.forebay/` of a bucket: plans, warm-ups, flushes, data sets.

    listing of .forebay/  ──>  x-forebay-resources: datasets, flush, plans, ...     Forebay, and what it has
                               no such header                                       any other server: it is sent nothing

A server without the resource is no error: its absence changes nothing but speed. `Client.stats.ignored` counts the
calls.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from forebay_client.batch.parallel_gets import as_batch_key
from forebay_client.client_errors import ClientError, InvalidRequest, ObjectNotFound, ServiceUnavailable
from forebay_client.compact_plan import check_lines, checked_order, compact_plan, key_list, line_problem
from forebay_client.objects import BatchKey, ObjectInfo, checked_key
from forebay_client.transport.error_document import error_code, error_of
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

PREFIX: Final = ".forebay/"
FLUSH_WAIT: Final = 20.0
"""Seconds of one request of a flush, at most."""
_KINDS: Final = "x-forebay-resources"
_REFUSED: Final = frozenset({403, 404})
_OF_CREDENTIALS: Final = frozenset(
    {"SignatureDoesNotMatch", "InvalidAccessKeyId", "RequestTimeTooSkewed", "ExpiredToken"}
)
"""Codes of a refusal that every request would meet."""


class ResourceClient(Protocol):
    """The methods of a client that the calls use."""

    def send_request(self, request: ObjectRequest, tolerated: frozenset[int] = frozenset()) -> ObjectResponse:
        """See forebay_client.transport.request_sender."""
        ...


@dataclass(frozen=True, slots=True)
class PlanHandle:
    """A plan that was sent."""

    bucket: str
    name: str
    is_accepted: bool
    """False: the server knows no plans, and reads are as fast as it makes them."""
    entries: int = 0
    """The entries of the plan, as Forebay counts them."""
    dropped: int = 0
    """Keys that the sender may not read."""
    _client: ResourceClient | None = field(default=None, repr=False, compare=False)

    def progress(self) -> dict[str, Any]:
        """Returns the reader's position and Forebay's lead: the fields of docs/plans.md. Empty where there is
        no such plan."""
        if self._client is None:
            return {}
        try:
            response = self._client.send_request(ObjectRequest("GET", self.bucket, f"{PREFIX}plans/{self.name}"))
        except ObjectNotFound:
            return {}
        return _object(response, self.bucket)

    def cancel(self) -> None:
        """Ends the plan: nothing is fetched for it any more."""
        if self._client is not None:
            self._client.send_request(ObjectRequest("DELETE", self.bucket, f"{PREFIX}plans/{self.name}"))


@dataclass(frozen=True, slots=True)
class WarmHandle:
    """A warm-up that was requested."""

    bucket: str
    is_accepted: bool
    """False: the server has no warm-up."""
    job: str = ""
    """The job, as `forebay jobs` names it."""
    dropped: int = 0
    """Keys that the sender may not read."""


@dataclass(slots=True)
class _KnownKeys:
    """Keys that were checked."""

    keys: list[str]
    digest: bytes = b""
    """The SHA-256 of the list of keys; empty: nobody needed it, as no server with plans was met."""


class ForebayResources:
    """The resources of one server, for one client."""

    def __init__(
        self, client: ResourceClient, count_ignored: Callable[[str], None], longest_wait: float = FLUSH_WAIT
    ) -> None:
        """`count_ignored`: called with the name of a call that the server has nothing for. `longest_wait`: seconds
        that a response may be waited for."""
        self._client, self._count_ignored = client, count_ignored
        self._longest_wait = min(FLUSH_WAIT, longest_wait)
        self._kinds: frozenset[str] | None = None
        self._key_list: _KnownKeys | None = None
        """The key list of the latest compact plan."""

    def kinds(self, bucket: str) -> frozenset[str]:
        """The kinds of resources that the server has; empty if it is no Forebay, or lets the client list nothing. It is
        asked once. Raises AccessDenied for credentials that the server does not accept."""
        if self._kinds is None:
            query = (("list-type", "2"), ("max-keys", "1"), ("prefix", PREFIX))
            request = ObjectRequest("GET", bucket, query=query)
            response = self._client.send_request(request, _REFUSED)
            if response.status == 403 and error_code(response)[0] in _OF_CREDENTIALS:
                raise error_of(request, response)
            found = frozenset(filter(None, response.headers.get(_KINDS, "").replace(" ", "").split(",")))
            if response.status >= 300:  # of this bucket; the next one may tell
                return found
            self._kinds = found
        return self._kinds

    def plan(
        self, bucket: str, name: str, keys: Iterable[str | BatchKey], order: Iterable[int] | None = None
    ) -> PlanHandle:
        """Sends a plan: `keys` in their order, or the keys with the numbers of `order`. An invalid plan is refused
        whatever the server is."""
        if not name:
            raise InvalidRequest("a plan has a name", bucket=bucket)
        named: list[str] = []
        digest = content = b""
        if order is not None:
            named = self._checked_keys(bucket, keys)
            numbers = checked_order(order, len(named))
        else:
            content = "".join([f"{_plan_line(bucket, as_batch_key(key))}\n" for key in keys]).encode()
        if "plans" not in self.kinds(bucket):
            self._count_ignored("plan")
            return PlanHandle(bucket, name, is_accepted=False)
        if order is not None:
            digest = self._digest_of(named)
            content = compact_plan(digest, numbers)
        try:
            response = self._put(bucket, f"plans/{name}", content)
        except InvalidRequest:
            if order is None:
                raise
            # The list is not known there, or no longer: it keeps the latest. If it is anything else, it is so again.
            self._put(bucket, f"plans/keys/{digest.hex()}", key_list(named).content)
            response = self._put(bucket, f"plans/{name}", content)
        entries, dropped = (_number(response, f"x-forebay-plan-{each}") for each in ("entries", "dropped"))
        return PlanHandle(bucket, name, True, entries, dropped, self._client)  # positional, as the fields

    def _checked_keys(self, bucket: str, keys: Iterable[str | BatchKey]) -> list[str]:
        """The keys of a compact plan as they are now; those of the one before were checked with it."""
        known = self._key_list
        named: list[Any] = keys if isinstance(keys, list) else list(keys)
        if known is not None and known.keys == named:  # some ns a key where the texts are the same objects
            return known.keys
        named = list(named)  # the caller's may change
        if any(not isinstance(key, str) for key in named):
            raise InvalidRequest("an order is of whole objects: its keys are names", bucket=bucket)
        check_lines(bucket, named)
        self._key_list = _KnownKeys(named)
        return named

    def _digest_of(self, keys: list[str]) -> bytes:
        known = self._key_list
        if known is None or known.keys is not keys:  # another thread's plan came between
            return key_list(keys).digest
        known.digest = known.digest or key_list(keys).digest
        return known.digest

    def _put(self, bucket: str, name: str, content: bytes) -> ObjectResponse:
        return self._client.send_request(ObjectRequest("PUT", bucket, f"{PREFIX}{name}", content=memoryview(content)))

    def warm(self, bucket: str, objects: str | Sequence[str]) -> WarmHandle:
        """Requests a warm-up of a prefix, or of keys."""
        if isinstance(objects, str):
            name, content = "prefix", objects.encode()
        else:
            name, content = "keys", "".join([f"{_line(bucket, key)}\n" for key in objects]).encode()
        if "warm" not in self.kinds(bucket):
            self._count_ignored("warm")
            return WarmHandle(bucket, is_accepted=False)
        response = self._put(bucket, f"warm/{name}", content)
        return WarmHandle(
            bucket, True, response.headers.get("x-forebay-warm-job", ""), _number(response, "x-forebay-warm-dropped")
        )

    def flush(
        self, bucket: str, prefix: str, timeout: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Waits until all writes that are pending now have reached the origin. Raises ServiceUnavailable after
        `timeout` seconds, and once all that is left waits for an operator."""
        if "flush" not in self.kinds(bucket):
            self._count_ignored("flush")
            return
        end, before = math.inf if timeout is None else clock() + timeout, "new"
        while True:
            # Whole seconds: one that is begun is waited for.
            wait = math.ceil(min(max(0.0, end - clock()), self._longest_wait))
            key = f"{PREFIX}flush/{before}/{wait}"
            try:
                response = self._client.send_request(
                    ObjectRequest("PUT", bucket, key, content=memoryview(prefix.encode()))
                )
            except ClientError as error:  # the key is that of a resource, which the caller did not name
                facts = (bucket, prefix or None, error.status, error.code, error.request_id)
                raise type(error).of(error.reason, facts) from None
            left = _number(response, "x-forebay-flush-left")
            if not left:
                return
            is_held_up = _number(response, "x-forebay-flush-held-up") == left
            if is_held_up or clock() >= end:
                why = ": they are stuck, or wait for a stuck one, until an operator decides" if is_held_up else ""
                raise ServiceUnavailable(
                    f"{left} writes have not reached the origin{why}", bucket=bucket, key=prefix or None
                )
            before = response.headers.get("x-forebay-flush-before", before)

    def datasets(self, bucket: str, listed: Iterable[ObjectInfo]) -> list[dict[str, Any]]:
        """The rows of data sets. `listed`: the objects below `.forebay/datasets/`."""
        if "datasets" not in self.kinds(bucket):
            self._count_ignored("datasets")
            return []
        rows = []
        for each in listed:
            try:
                rows.append(_object(self._client.send_request(ObjectRequest("GET", bucket, each.key)), bucket))
            except ObjectNotFound:
                continue  # a reload has just removed its rule
        return rows


def _plan_line(bucket: str, entry: BatchKey) -> str:
    if entry.member is not None:
        raise InvalidRequest("a plan names objects and ranges, no members of archives", bucket=bucket, key=entry.key)
    key = _line(bucket, entry.key)
    if entry.start == 0 and entry.end is None:
        return key
    return f"{key}\t{entry.start}-{'' if entry.end is None else entry.end - 1}"


def _line(bucket: str, key: str) -> str:
    if problem := line_problem(checked_key(key)):
        raise InvalidRequest(problem, bucket=bucket, key=key)
    return key


def _number(response: ObjectResponse, name: str) -> int:
    text = response.headers.get(name, "0")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _object(response: ObjectResponse, bucket: str) -> dict[str, Any]:
    try:
        document = json.loads(bytes(response.body))
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ClientError("the document can't be read", bucket=bucket, status=response.status)
    return document
