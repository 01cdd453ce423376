"""The signed probe: a ListBuckets that shows whether the origin accepts a key, and the origin's clock.

It takes no turn, passes no breaker and has its own connection: its result is about the key alone. The unsigned probe,
which shows whether the origin can be reached, is in forebay.origin.reachability.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.errors import OriginBroken
from forebay.origin.credential_refusal import REGION_REFUSAL, SUSPECT_STATUSES, CredentialRefusal, date_of, refusal_in
from forebay.origin.endpoint import Endpoint
from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_request import OriginRequest
from forebay.origin.request_signer import RequestSigner
from forebay.protocol.signatures.signing_key import SecretKey

PROBE_AGENT: Final = "forebay-probe"
REFUSAL_LIMIT: Final = 64 * 1024
"""Bytes of a response that are read to find out why the origin refuses. Error documents have a few hundred."""


class CredentialProbe:
    """Probes the credential of one origin. `clock`: seconds since the epoch."""

    def __init__(
        self, endpoint: Endpoint, pool: ConnectionPool, signer: RequestSigner, clock: Callable[[], float]
    ) -> None:
        self._endpoint = endpoint
        self._pool = pool
        self._signer = signer
        self._clock = clock
        self.clock_difference: float | None = None
        """Seconds that Forebay's clock was ahead of the origin's at the latest probe."""

    async def judge(self, key: SecretKey) -> CredentialRefusal | None:
        """The refusal of a ListBuckets that is signed with `key`; None: it is accepted. Raises ConnectionFault,
        OriginError."""
        request = OriginRequest("GET", operation="ListBuckets", credential=key)
        url = self._endpoint.url_of(None, None, ())
        response = await self._pool.send("GET", url.server, await self._signer.head(request, url), fresh=True)
        if (date := date_of(response.headers)) is not None:
            self.clock_difference = self._clock() - date.timestamp()
        try:
            if response.status in RETRIED_STATUSES:
                raise OriginBroken(f"status {response.status}")
            if response.status not in SUSPECT_STATUSES:
                return None
            document = bytearray()
            while len(document) <= REFUSAL_LIMIT and (piece := await response.next_piece()):
                document += piece
        finally:
            response.close()
        refusal = refusal_in(response.headers, bytes(document))
        if refusal is not None and refusal.code == REGION_REFUSAL and self._endpoint.is_global:
            return None  # it lists buckets in one region, and serves those of all
        return refusal
