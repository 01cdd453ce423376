"""The RPC methods of the journal that the workers of a node share: each reports the writes that it has recorded and
carried out. The server side of write.back.
"""

from forebay.peers.frames import Document
from forebay.server.rpc.rpc_methods import OpenWrites, RpcMethods
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.write_back import WriteBack


class JournalMethods:
    """Receives the reports of other workers about the journal."""

    def __init__(self, write_back: WriteBack, backlog: NodeBacklog) -> None:
        self._write_back = write_back
        self._backlog = backlog
        self.methods = RpcMethods(
            ordered={
                "pending": self._pending,
                "settled": self._settled,
                "unsettled": self._unsettled,
                "stopped": self._stopped,
                "write_proof": self._write_proof,
                "upload_parts": self._upload_parts,
                "written_through": self._written_through,
                "sent_through": self._sent_through,
            },
            unary={
                "journal_scanned": self._journal_scanned,
                "move_upload": self._move_upload,
                "upload_ending": self._upload_ending,
                "own_uploads": self._own_uploads,
                "backlog": self._call_backlog,
            },
        )

    def _pending(self, request: Document, _: OpenWrites) -> None:
        self._write_back.exchange.receive_pending(request)
        self._write_back.writer.note_written()

    def _settled(self, request: Document, _: OpenWrites) -> None:
        self._write_back.exchange.receive_settled(request)

    def _unsettled(self, request: Document, _: OpenWrites) -> None:
        self._write_back.exchange.receive_unsettled(request)

    def _stopped(self, request: Document, _: OpenWrites) -> None:
        self._write_back.exchange.receive_stopped(request)

    def _write_proof(self, request: Document, _: OpenWrites) -> None:
        self._write_back.proofs.receive(request)

    def _upload_parts(self, request: Document, _: OpenWrites) -> Document:
        return self._write_back.expiry.receive(request)

    def _written_through(self, request: Document, _: OpenWrites) -> None:
        self._write_back.receive_made(request)

    def _sent_through(self, request: Document, _: OpenWrites) -> None:
        self._write_back.receive_sent(request)

    async def _journal_scanned(self, _: Document) -> Document:
        await self._write_back.watch.receive_scan()
        return {}

    async def _move_upload(self, request: Document) -> Document:
        return await self._write_back.moves.receive(request)

    async def _upload_ending(self, request: Document) -> Document:
        return await self._write_back.endings.receive(request)

    async def _own_uploads(self, request: Document) -> Document:
        return self._write_back.own_uploads.receive(request)

    async def _call_backlog(self, request: Document) -> Document:
        return await self._backlog.answer(request)
