"""Sends requests until they succeed: the fastest transport that carries them, retries, bodies that broke off.

    send ──> transports in order ──TransportFallback──> the next, counted
         ──> 2xx                    the response
         ──> 429, 5xx, no response  again, after a delay
         ──> no connection          again, as long as the server is waited for (server_outage)
         ──> the body broke off     the rest of it, under If-Match: never bytes of two versions; else all of it again
         ──> any other status       an error

Every request of this library can be repeated: what S3 calls by PUT, POST and DELETE has the same outcome twice. But for
the completion of an upload, whose second answer is that there is no such upload; multipart_upload knows.
"""

import functools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from forebay_client.client_errors import ClientError, ServiceUnavailable
from forebay_client.client_stats import ClientStats
from forebay_client.transport.body_checks import content_range, is_corrupt
from forebay_client.transport.error_document import corrupt_body, error_code, error_of, request_id_of
from forebay_client.transport.object_request import (
    BodyInterrupted,
    ObjectRequest,
    ObjectResponse,
    Transport,
    TransportFailed,
    TransportFallback,
    Unreachable,
)
from forebay_client.transport.retry_policy import RetryPolicy, is_worth_retrying, patience

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _PartialBody:
    """The part of a body that has arrived, and the response that it belongs to."""

    head: ObjectResponse
    buffer: memoryview
    received: int


class RequestSender:
    """Sends the requests of one client. Used by many threads at once."""

    def __init__(
        self,
        transports: Sequence[Transport],
        stats: ClientStats,
        retries: int,
        *,
        pause: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`transports`: the fastest first; the last carries everything. `pause`: waits for seconds."""
        self.transports = tuple(transports)
        self._stats = stats
        self._policy = RetryPolicy(retries, jitter)
        self._pause = pause or _wait

    def send(self, request: ObjectRequest, tolerated: frozenset[int] = frozenset()) -> ObjectResponse:
        """The successful response, or one with a status that is `tolerated`. Raises ClientError."""
        partial: _PartialBody | None = None
        attempt = refused = 0
        waited = 0.0
        while True:
            headers: Mapping[str, str] = _NO_HEADERS
            failure: Callable[[], ClientError]
            try:
                response = self._send_once(request) if partial is None else self._send_rest(request, partial)
            except Unreachable as error:
                # A server may refuse some connections and take others, so that no outage lasts.
                if not error.may_wait or waited >= patience(self._policy.retries):
                    raise ServiceUnavailable(str(error), bucket=request.bucket, key=request.key) from None
                self._stats.count_retry(is_resumed=partial is not None)
                seconds = self._policy.outage_delay(refused)
                self._pause(seconds)
                waited, refused = waited + seconds, refused + 1
                continue
            except TransportFailed as error:
                failure = _unavailable(request, str(error))
            except BodyInterrupted as interrupted:
                partial = _joined(partial, interrupted)
                failure = _unavailable(request, f"the body broke off: {interrupted}", interrupted.head)
            else:
                if response is None:  # the object has changed since: all of it again, at once
                    partial = None
                    continue
                if response.status < 300:
                    if not is_corrupt(request, response):
                        return response
                    partial = None
                    failure = functools.partial(
                        corrupt_body, "the body has another checksum", request.bucket, request.key, response
                    )
                elif is_worth_retrying(response.status, error_code(response)[0]):
                    failure = functools.partial(error_of, request, response)
                elif response.status in tolerated:
                    return response
                else:
                    raise error_of(request, response)
                headers = response.headers
            delay = self._policy.delay(attempt, headers)
            if delay is None:
                raise failure()
            attempt += 1
            self._stats.count_retry(is_resumed=partial is not None)
            self._pause(delay)

    def _send_once(self, request: ObjectRequest) -> ObjectResponse:
        for transport in self.transports:
            if not transport.carries(request):
                continue
            try:
                response = transport.send(request)
            except TransportFallback as fallback:
                self._stats.count_fallback(transport.name, str(fallback))
            else:
                self._stats.count_request(transport.name)
                return response
        raise TransportFailed("no transport carries the request")

    def _send_rest(self, request: ObjectRequest, partial: _PartialBody) -> ObjectResponse | None:
        """The response with its body completed; None: the rest can't be had, or belongs to another version."""
        found = content_range(partial.head)
        first = found.start if found is not None else 0
        etag = partial.head.etag
        if not etag or etag.startswith("W/") or (partial.head.status == 206 and found is None):
            return None
        missing = partial.buffer[partial.received :]
        start = first + partial.received
        response = self._send_once(
            replace(
                request,
                span=(start, start + len(missing)),
                headers={**request.headers, "if-match": etag},
                buffer=missing,
            )
        )
        if response.status in {412, 416}:
            return None
        if response.status >= 300:
            return response
        span = content_range(response)
        if response.status != 206 or response.etag != etag or span is None or span.start != start:
            return None
        if len(response.body) != len(missing):
            return None
        if response.body.obj is not missing.obj:
            missing[:] = response.body
        return ObjectResponse(partial.head.status, partial.head.headers, partial.buffer)


def _wait(seconds: float) -> None:
    """Waits. An event of this call alone: the lock of one stays taken when Ctrl-C comes at its turn."""
    threading.Event().wait(seconds)


def _joined(partial: _PartialBody | None, interrupted: BodyInterrupted) -> _PartialBody | None:
    """Returns the bytes that have arrived by now. A streamed body leaves nothing that could be continued."""
    if not len(interrupted.buffer):
        return None
    if partial is None:
        return _PartialBody(interrupted.head, interrupted.buffer, interrupted.received)
    span = content_range(interrupted.head)
    first = content_range(partial.head)
    is_same = interrupted.head.status == 206 and interrupted.head.etag == partial.head.etag
    # What a longer range than was asked for has brought is in memory of its own.
    is_in_place = interrupted.buffer.obj is partial.buffer.obj
    if (
        is_same
        and is_in_place
        and span is not None
        and span.start == (first.start if first is not None else 0) + partial.received
    ):
        return replace(partial, received=partial.received + interrupted.received)
    return partial


def _unavailable(
    request: ObjectRequest, reason: str, head: ObjectResponse | None = None
) -> Callable[[], ServiceUnavailable]:
    """`head`: of the response, if one has begun."""
    return functools.partial(
        ServiceUnavailable,
        reason,
        bucket=request.bucket,
        key=request.key,
        status=head.status if head is not None else None,
        request_id=request_id_of(head) if head is not None else None,
    )
