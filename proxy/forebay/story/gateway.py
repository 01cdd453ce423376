"""The gateway: the way of a request, step by step.

    parse ──> authenticate ──> authorise ──> rule ──┬─> freshness ─> plan ─> tiers ─> flight     reading
                                                    ├─> origin                                    passing
                                                    └─> origin, between two invalidations         writing

A form upload is signed in its body, and goes the same way from there (forebay.story.posting).

There is one way in, and it fails closed: no step can be skipped, and what each gives (a Target, a Signed, a Permit) is
an argument of the next. A request that nothing recognised as a plain read is passed on; one that nothing allows is
refused.
"""

import itertools
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from forebay.decisions.access import authorise
from forebay.decisions.rules import Rules
from forebay.protocol.answers import unsatisfiable_headers
from forebay.protocol.copysource import copy_source
from forebay.protocol.documents import error_document
from forebay.protocol.operations import classify
from forebay.protocol.oss.recognise import speaks_oss
from forebay.protocol.presigned import lifted
from forebay.protocol.target import parse_target
from forebay.protocol.variants import PLAIN
from forebay.story.account import Account
from forebay.story.authentication import Keyring, authenticate
from forebay.story.exchange import Reply, Request
from forebay.story.passing import Parcel, Passing, relay
from forebay.story.posting import Posting, is_form
from forebay.story.reading import Reading
from forebay.story.writing import Writing
from forebay.words.errors import OriginError, S3Error, Throttled

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """What may change while serving. Another takes its place then, so what was decided under one can be told by it."""

    keyring: Keyring
    rules: Rules
    domains: tuple[str, ...]
    cnames: Mapping[str, str]


class Gateway:
    """Answers requests. Never raises: what goes wrong is an answer, or an aborted connection."""

    def __init__(self, policy: Policy, reading: Reading, writing: Writing, passing: Passing) -> None:
        self.policy = policy
        self._reading = reading
        self._writing = writing
        self._passing = passing
        self._posting = Posting(writing)

    async def handle(self, request: Request, reply: Reply, account: Account) -> None:
        """Answer `request` on `reply`, and note in `account` what it came to."""
        try:
            await self._answer(request, reply, account)
        except S3Error as error:
            await self.refuse(error, request, reply, account)
        except Throttled as error:
            _log.info("%s: %s", account.request_id, error)
            await self.refuse(S3Error("SlowDown"), request, reply, account)
        except OriginError as error:
            _log.warning("%s: the origin could not answer %s: %s", account.request_id, account.operation, error.reason)
            await self.refuse(S3Error("ServiceUnavailable"), request, reply, account)
        except ConnectionError:
            account.aborted = True
            reply.abort()
        except Exception:
            _log.exception("%s: unhandled in step %s", account.request_id, account.step)
            await self.refuse(S3Error("InternalError"), request, reply, account)

    async def _answer(self, request: Request, reply: Reply, account: Account) -> None:
        policy = self.policy
        target = parse_target(request.raw_target, request.host, policy.domains, policy.cnames)
        account.bucket, account.key = target.bucket or "", target.key or ""

        if is_form(request, target):
            await self._posting.answer(request, target, policy.keyring, policy.rules, reply, account)
            return

        account.step = "authenticate"
        principal, signed = authenticate(policy.keyring, request.method, target, request.headers, request.received_at)
        account.principal = principal.id
        if speaks_oss(target, request.headers):
            raise S3Error("NotImplemented", "Requests of OSS are not translated yet.")
        # Verified as they came; from here on, what a presigned URL moved into the query is the header it stands for.
        target, headers = lifted(target, request.headers)
        request = replace(request, headers=headers)

        account.step = "authorise"
        operation = classify(request.method, target, request.headers)
        account.operation = operation.name
        source = copy_source(request.headers)
        permit = authorise(principal, operation, target, source=source.name if source is not None else None)

        account.step = "rule"
        decision = policy.rules.decide(target.name) if target.key is not None else None
        if decision is not None:
            account.rule = decision.rule
        asker = policy.keyring.askers.get(principal.id)
        variant = PLAIN if operation.plain_read else operation.variant
        if variant is not None and decision is not None and decision.accelerate:
            passed_on = await self._reading.answer(
                permit, target.name, request, decision, reply, account, variant, asker
            )
            if passed_on is None:
                return
            _log.info("%s: passed on: %s", account.request_id, passed_on.reason)

        parcel = Parcel(request, target, operation, signed, asker)
        account.cache = "bypass"
        if request.method in {"GET", "HEAD"}:
            account.step = "origin"
            async with await self._passing.send(parcel) as answer:
                account.step = "reply"
                await relay(answer, reply, account, request.method)
            return
        await self._writing.carry(parcel, principal, decision, reply, account)

    async def refuse(self, error: S3Error, request: Request, reply: Reply, account: Account) -> None:
        """Answer with S3's error document, or abort if the head of another answer has left."""
        account.error = error.code
        if reply.started:
            reply.abort()
            return
        document = error_document(error, resource=request.raw_target.partition("?")[0], request_id=account.request_id)
        headers = [("Content-Type", "application/xml"), ("x-amz-request-id", account.request_id)]
        if account.cache is not None:
            headers.append(("x-forebay-cache", account.cache))
        if error.code == "InvalidRange":
            headers += unsatisfiable_headers(int(error.details["ActualObjectSize"]))
        if error.status == 503:
            headers.append(("Retry-After", "1"))
        try:
            await reply.start(error.status, tuple(headers), len(document))
            if request.method != "HEAD":
                await reply.write(document)
            await reply.finish()
        except ConnectionError:
            account.aborted = True
            reply.abort()


def _request_ids() -> Iterator[str]:
    """Sixteen hex digits, as S3's are letters and digits: unique enough to find a request in a log.

    A count begun anywhere, so that ids of one process never repeat. Its last digits come from a table: putting a number
    into digits each time costs a hit more than the copy of its body.
    """
    last = [f"{number:03X}" for number in range(1 << 12)]
    for number in itertools.count(secrets.randbits(48)):
        first = f"{number:013X}"
        for digits in last:
            yield first + digits


new_request_id: Final[Callable[[], str]] = _request_ids().__next__
"""The next id for a request."""
