"""The RPC methods of key locks: other workers' questions about this worker's writes. The server side of
write.key_locks."""

from collections.abc import Sequence

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode, decode_name
from forebay.server.rpc.rpc_methods import OpenWrites, RpcMethods
from forebay.write.key_locks import KeyLocks


class LockMethods:
    """Answers from the locks of this worker."""

    def __init__(self, locks: KeyLocks) -> None:
        self._locks = locks
        self.methods = RpcMethods(
            ordered={"is_being_deleted": self._is_being_deleted},
            unary={"await_deletions": self._await_deletions, "await_writes": self._await_writes},
        )

    def _is_being_deleted(self, request: Document, _: OpenWrites) -> Document:
        return {"deleting": self._locks.is_being_deleted(_names(request))}

    async def _await_deletions(self, request: Document) -> Document:
        await self._locks.wait_for_deletions(_names(request))
        return {}

    async def _await_writes(self, request: Document) -> Document:
        await self._locks.wait_for_others(_names(request))
        return {}


def _names(request: Document) -> Sequence[ObjectName]:
    return decode(lambda: [decode_name(each) for each in request["names"]])
