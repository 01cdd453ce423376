"""Reads that the cache does not answer: listings, subresources, objects that no rule accelerates. The origin answers.

    send ──> head ──> first byte of the body ──> relay
      └────────┴──────────────┴── failure, 429, 500, 502, 503, 504: send again, after a pause

Only GET and HEAD come here, which have no side effects; one with a body is not repeated. Once a byte of a response has
left, its failure aborts the connection. The origin's last response is relayed as it is.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from forebay.core.errors import OriginError
from forebay.core.request_record import RequestRecord
from forebay.origin.origins import Origins
from forebay.origin.reads.read_attempts import ReadAttempts
from forebay.protocol.exchange import Reply
from forebay.request.oss_frontend import OssFrontend
from forebay.write.answer_relay import AnswerRelay
from forebay.write.forward_request import ForwardRequest


class ForwardedReads:
    """Has the origin answer reads. Keeps no state between them."""

    def __init__(
        self,
        origins: Origins,
        oss_frontend: OssFrontend,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._origins, self._oss_frontend, self._sleep, self._jitter = origins, oss_frontend, sleep, jitter

    async def relay(self, forward: ForwardRequest, reply: Reply, record: RequestRecord) -> None:
        """Answers the read. Raises S3Error, OriginError, Throttled, and ConnectionError for a client that has left."""
        attempts = ReadAttempts(
            self._origins.of(forward.target.bucket), forward.operation.name, sleep=self._sleep, jitter=self._jitter
        )
        repeatable = not forward.request.has_body  # a body is read once
        while True:
            record.step = "origin"
            try:
                async with await self._oss_frontend.send_read(forward) as answer:
                    if repeatable and await attempts.is_repeated(answer):
                        continue
                    record.step = "reply"
                    await AnswerRelay(answer, forward.request, reply, record).stream()
                    return
            except OriginError as error:
                if reply.started or not repeatable:
                    raise
                await attempts.pause_or_raise(error)
