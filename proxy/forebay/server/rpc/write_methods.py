"""The RPC methods of writes that another worker carries: their affected keys are fenced and forgotten here, until the
writes have ended. The server side of write.invalidation.
"""

import logging
from collections.abc import Callable, Sequence

from forebay.core.errors import ForebayError
from forebay.core.fences import InDoubtWrites
from forebay.core.names import Generation, ObjectName
from forebay.metadata.staged_objects import StagedObjects, decode_staged
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.request.admission import GatewayPolicy
from forebay.server.rpc.rpc_methods import OpenWrites, RpcMethods, origin_identity
from forebay.storage.tiers import Tiers
from forebay.write.invalidation import AffectedKeys, Invalidator, WholeBucket, decode_affected
from forebay.write.tracked_write import WriteTracker

_log = logging.getLogger(__name__)


class WriteMethods:
    """Applies the writes of other workers. `policy` returns the one in force."""

    def __init__(
        self,
        invalidator: Invalidator,
        in_doubt_writes: InDoubtWrites,
        staged: StagedObjects,
        tracker: WriteTracker,
        tiers: Tiers,
        catalogue: PackCatalogue,
        policy: Callable[[], GatewayPolicy],
        clock: Callable[[], float],
    ) -> None:
        self._invalidator = invalidator
        self._in_doubt_writes = in_doubt_writes
        self._staged_objects = staged
        self._tracker = tracker
        self._tiers = tiers
        self._catalogue = catalogue
        self._policy = policy
        self._clock = clock
        self.methods = RpcMethods(
            ordered={
                "fence": self._fence,
                "write_ended": self._write_ended,
                "in_doubt_writes": self._list_in_doubt_writes,
                "install": self._install,
                "part": self._part,
                "wrote": self._receive_digest,
            },
            unary={"forget": self._forget, "flush": self._flush},
        )

    async def caller_died(self, writes: OpenWrites) -> None:
        """Invalidates the writes under way in a worker that has ended, and marks them in doubt: whether they reached
        the origin is not known."""
        remaining = writes.remaining()
        for affected in remaining:
            self._invalidator.mark_in_doubt(affected)
            self._invalidator.fence(affected)
        for affected in remaining:
            await self._invalidator.forget(affected)
        names = [name for each in remaining if not isinstance(each, WholeBucket) for name in each]
        await self._look_for_tombstones(names)  # last, as the origin may be slow

    async def _look_for_tombstones(self, affected: Sequence[ObjectName]) -> None:
        """Looks for tombstones of members that the writes may have deleted. Reads look for them as well, listings do
        not."""
        for bucket in {name.bucket for name in affected}:
            try:
                await self._catalogue.look_for_tombstones(
                    bucket, [each.key for each in affected if each.bucket == bucket]
                )
            except ForebayError as failure:
                _log.info("%s: tombstones of a worker that has ended can't be looked for: %s", bucket, failure)

    def load_in_doubt_writes(self, response: Document) -> None:
        """Takes over another worker's in-doubt writes, from its response to `in_doubt_writes`. Done once, at start."""
        for key, until in response["writes"]:
            self._in_doubt_writes.merge(key if key is None or isinstance(key, str) else decode_name(key), until)

    def _fence(self, request: Document, writes: OpenWrites) -> None:
        affected, keep = _decode_affected(request)
        if (write := request.get("write")) is not None:
            writes.add(int(write), affected)
        if (until := request.get("doubt")) is not None:
            self._invalidator.mark_in_doubt(affected, float(until))
        self._invalidator.fence(affected)
        self._invalidator.drop(affected, keep)

    def _write_ended(self, request: Document, writes: OpenWrites) -> None:
        writes.remove(decode(lambda: int(request["write"])))

    def _list_in_doubt_writes(self, _: Document, __: OpenWrites) -> Document:
        known = self._in_doubt_writes.snapshot(self._clock())
        return {"writes": [[encode_name(key) if isinstance(key, ObjectName) else key, until] for key, until in known]}

    def _install(self, request: Document, _: OpenWrites) -> None:
        name, staged = decode(lambda: (decode_name(request["name"]), decode_staged(request["staged"])))
        self._staged_objects.install(name, staged, origin_identity(self._policy(), request))

    def _part(self, request: Document, _: OpenWrites) -> None:
        self._tracker.registry.receive(request)

    def _receive_digest(self, request: Document, _: OpenWrites) -> None:
        self._tracker.digests.receive(request)

    async def _forget(self, request: Document) -> Document:
        affected, keep = _decode_affected(request)
        await self._invalidator.forget(affected, keep)
        return {}

    async def _flush(self, _: Document) -> Document:
        await self._tiers.flush()
        return {}


def _decode_affected(request: Document) -> tuple[AffectedKeys, Generation | None]:
    keep = request.get("keep")
    return decode(lambda: (decode_affected(request), Generation(bytes.fromhex(keep)) if keep is not None else None))
