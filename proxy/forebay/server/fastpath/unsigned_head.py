"""Unsigned heads: the heads of a client's GETs without a signature, which differ in their targets alone.

    GET /bucket/key HTTP/1.1          the target             differs, without a query
    Host: 127.0.0.1:9000              every other byte       as in a head that was parsed and admitted

Equal bytes mean what they meant before, so the next head is not parsed, and of its admission only what depends on the
key is left (forebay.request.admission.UnsignedReads). A head that differs elsewhere is parsed and admitted in full.
Signed requests have forebay.server.fastpath.head_template.
"""

from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers
from forebay.protocol.target import parse_target
from forebay.request.admission import Admission, GatewayPolicy, UnsignedReads
from forebay.server.fastpath.request_head import MAX_HEAD_SIZE

_START: Final = b"GET "
_END: Final = b" HTTP/1.1\r\n"


class UnsignedHead:
    """The head of an admitted GET, for the later ones on its connection."""

    __slots__ = ("_headers", "_host", "_policy", "_reads", "_rest")

    def __init__(self, data: bytes, headers: Headers, admission: Admission) -> None:
        """`data`: the head, `headers` of it as parsed. Its admission is repeatable."""
        self._rest = data[data.index(_END) :]
        self._headers, self._host, self._policy = headers, headers["Host"], admission.policy
        self._reads = UnsignedReads(admission)

    @classmethod
    def learn(cls, data: bytes, headers: Headers, admission: Admission) -> "UnsignedHead | None":
        """The head of an admitted request; None if it is signed, no plain GET, or has fields that mostly differ from
        request to request: in open mode also a signature that is not looked at."""
        is_repeated = UnsignedReads.is_repeatable(admission) and not ("Range" in headers or "Authorization" in headers)
        return cls(data, headers, admission) if is_repeated else None

    def admit(self, data: bytes, policy: GatewayPolicy) -> tuple[str, Headers, Admission] | None:
        """The target as received, the headers and the admission of the request with the head `data`; None: it has to be
        parsed and admitted in full."""
        rest = self._rest
        if (
            policy is not self._policy
            or not data.startswith(_START)
            or not data.endswith(rest)
            or len(data) > MAX_HEAD_SIZE
        ):
            return None
        try:
            raw_target = data[len(_START) : len(data) - len(rest)].decode("ascii")
            target = parse_target(raw_target, self._host, policy.domains, policy.cnames)
        except (S3Error, UnicodeDecodeError):
            return None
        admission = self._reads.admit(target)
        return (raw_target, self._headers, admission) if admission is not None else None
