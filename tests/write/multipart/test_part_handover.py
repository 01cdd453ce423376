"""What is asked of other workers before an upload is completed."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.protocol.target import parse_target
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.server.rpc.rpc_server import RpcServer
from forebay.storage.tiers import Tiers
from forebay.write.forwarder import ForwardRequest
from forebay.write.multipart.part_handover import PartHandover
from forebay.write.multipart.staged_uploads import StagedUploads


async def test_a_worker_that_is_beginning_knows_of_no_part(tmp_path: Path) -> None:
    """It answers everything as it answers what a worker asks that begins itself."""
    asked: list[Document] = []

    class Asking(Peers):
        async def call_all(self, document: Document) -> dict[int, Document]:
            asked.append(document)
            return await super().call_all(document)

    port, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    await port.start()
    try:
        staged = StagedUploads()
        target = parse_target("/bucket/key?uploadId=upload", "host", ())
        parcel = cast("ForwardRequest", SimpleNamespace(target=target))
        peers = Asking(0, {1: Peer(1, tmp_path / "socket", 0, tasks.spawn)})
        await PartHandover(peers, staged, cast("Tiers", None)).bring(parcel, [UploadedPart(1, '"etag"')])
        assert [question["kind"] for question in asked] == ["staged"]
        assert staged.missing(target.name, "upload", [UploadedPart(1, '"etag"')]) == [UploadedPart(1, '"etag"')]
    finally:
        await port.close()
        await tasks.close()
