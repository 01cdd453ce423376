"""The fast lane: the short way of a hit, without a task, a framework or a copy of the body.

It takes a request only when nothing is left to doubt or to wait for: one complete head of a GET or HEAD on a connection
that rests (fasthead, boundary), whose answer is fresh and whole in memory, or on the SSD and in the page cache.
Everything else goes, bytes untouched, to the full lane. It makes no decision of its own: it calls the same functions in
the same order, and where one of them raises, or says anything but the plain answer, the full lane says it again and
tells the client.

    read_head > parse_target > authenticate > classify > authorise > rules > believed > conditions > range > tiers
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final, NamedTuple

from forebay.decisions.access import authorise
from forebay.decisions.freshness import asks_revalidation
from forebay.flights.resolver import Resolver
from forebay.protocol.answers import asks_checksums, has_checksums, partial_headers, whole_headers
from forebay.protocol.conditions import Proceed, judge_conditions
from forebay.protocol.operations import classify
from forebay.protocol.rangeheader import Unsatisfiable, Whole, parse_range, range_of, resolve
from forebay.protocol.target import parse_target
from forebay.shell.listener.adapter import SERVER_NAME
from forebay.shell.listener.fasthead import read_head
from forebay.stores.budget import Budget
from forebay.stores.contract import Buffer
from forebay.stores.tiers import Tiers
from forebay.story.account import Account, CacheStatus
from forebay.story.authentication import authenticate
from forebay.story.gateway import Gateway, new_request_id
from forebay.words.errors import S3Error
from forebay.words.heads import Head, HeaderPairs
from forebay.words.names import BlockId, ObjectName
from forebay.words.ranges import Span, block_span, blocks_touching

JOINED: Final = 16 << 10
"""Bytes of a body up to which copying it behind its head is cheaper than a write of its own."""
LARGEST: Final = 4 << 20
"""Bytes of a body that is answered here. A larger one is sent block by block by the full lane, at no greater cost."""


@dataclass(frozen=True, slots=True)
class FastAnswer:
    """What to write: the head and the body's pieces, in order."""

    head: bytes
    body: tuple[Buffer, ...]
    length: int


class Hits(NamedTuple):
    """What hits are answered from."""

    resolver: Resolver
    tiers: Tiers
    budget: Budget


class FastLane:
    """Answers hits of one worker. `clock`: seconds since the epoch, what signatures are judged by."""

    def __init__(
        self,
        gateway: Gateway,
        hits: Hits,
        finished: Callable[[Account], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._gateway = gateway
        self._resolver, self._tiers, self.budget = hits
        """What clients hold that don't take their answers is taken from it."""
        self._finished = finished
        self._clock = clock
        self._second = 0
        self._date = b""

    def answer(self, data: bytes, peer: str) -> FastAnswer | None:
        """The whole answer to the request that `data` is, or None: then nothing has happened."""
        started = time.monotonic()
        request = read_head(data)
        if request is None:
            return None
        method, raw_target, headers = request
        policy = self._gateway.policy
        try:
            target = parse_target(raw_target, headers["Host"], policy.domains)
            if target.key is None:
                return None
            principal, _ = authenticate(policy.keyring, method, target, headers, self._clock())
            operation = classify(method, target, headers)
            if not operation.plain_read:
                return None
            name = target.name
            permit = authorise(principal, operation, target)
        except S3Error:
            return None
        decision = policy.rules.decide(name)
        if not decision.accelerate or not permit.covers(name):
            return None
        asker = policy.keyring.askers.get(principal.id)
        head = self._resolver.believed(name, decision, no_cache=asks_revalidation(headers), asker=asker)
        if head is None:
            return None
        if not isinstance(judge_conditions(headers, head.version.etag, head.facts.last_modified), Proceed):
            return None
        spec = parse_range(range_of(headers))
        span = resolve(spec, head.size)
        if isinstance(span, Unsatisfiable) or span.length > LARGEST:
            return None
        checksums = isinstance(spec, Whole) and asks_checksums(headers)
        if checksums and method == "HEAD" and not has_checksums(head.facts):
            return None
        body: tuple[Buffer, ...] = ()
        cache: CacheStatus = "hit-memory"
        if method == "GET":
            if span.length > JOINED and not self._affordable(span.length):
                return None
            found = self._blocks(name, head, span)
            if found is None:
                return None
            body, cache = found
        account = Account(method, "fast", started, new_request_id(), peer, operation.name, principal.id)
        account.bucket, account.key, account.rule = name.bucket, name.key, decision.rule
        account.cache, account.step = cache, "reply"
        if isinstance(spec, Whole):
            account.status, line, fields = 200, "HTTP/1.1 200 OK\r\n", whole_headers(head.facts, checksums=checksums)
        else:
            account.status, line = 206, "HTTP/1.1 206 Partial Content\r\n"
            fields = partial_headers(head.facts, span)
        raw_head = self._raw_head(line, fields, account.request_id, cache)
        if raw_head is None:
            return None
        if body:
            account.count("memory" if cache == "hit-memory" else "ssd", span.length)
        account.first_byte = account.ended = time.monotonic()
        self._finished(account)
        return FastAnswer(raw_head, body, span.length if body else 0)

    def _affordable(self, size: int) -> bool:
        """Whether the budget would stand a client that takes not a byte of these for now."""
        return self.budget.waiting == 0 and self.budget.in_use + size <= self.budget.capacity

    def _blocks(self, name: ObjectName, head: Head, span: Span) -> tuple[tuple[Buffer, ...], CacheStatus] | None:
        """The bytes `span`, and where they were, if all of them are in memory or can be read without waiting."""
        pieces: list[Buffer] = []
        cache: CacheStatus = "hit-memory"
        for number in blocks_touching(span, head.block_size):
            block, whole = BlockId(name, head.generation, number), block_span(number, head.block_size, head.size)
            wanted = whole.clip(span)
            within = Span(wanted.start - whole.start, wanted.stop - whole.start)
            buffer = self._tiers.memory.get(block)
            if buffer is not None:
                pieces.append(buffer[within.start : within.stop])
                continue
            found = self._tiers.load_now(block, whole.length, within)
            if not isinstance(found, memoryview):
                return None
            pieces.append(found)
            cache = "hit-ssd"
        return tuple(pieces), cache

    def _raw_head(self, line: str, fields: HeaderPairs, request_id: str, cache: CacheStatus) -> bytes | None:
        """As the full lane writes it, byte for byte (held by a test). None where that is not plain ASCII."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = f"Date: {formatdate(second, usegmt=True)}\r\n\r\n".encode()
        text = "".join([f"{name}: {value}\r\n" for name, value in fields])
        if not text.isascii():
            return None
        ours = f"x-amz-request-id: {request_id}\r\nx-forebay-cache: {cache}\r\nServer: {SERVER_NAME}\r\n"
        return f"{line}{text}{ours}".encode() + self._date
