"""Handing over: the staged parts of an upload may have come through any worker, its completion comes to one.

Where a part was staged (forebay.write.warm_on_write) stays known in the worker that it passed through until the upload
is
completed: then the worker that completes it asks the others for the parts which the completion lists and it does not
know itself, and finds their bytes in the SSD tier. A worker that is gone has taken its parts' along, as a restart has:
the upload is not warmed then.
"""

from collections.abc import Sequence

from forebay.metadata.staged_objects import decode_staged, encode_staged
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.tiers import Tiers
from forebay.write.forwarder import ForwardRequest
from forebay.write.multipart.staged_uploads import StagedUploads


class PartHandover:
    """Of one worker: asks, and answers."""

    def __init__(self, peers: Peers, staged: StagedUploads, tiers: Tiers) -> None:
        self._peers = peers
        self._staged = staged
        self._tiers = tiers

    async def bring(self, parcel: ForwardRequest, listed: Sequence[UploadedPart] | None) -> None:
        """Before a completion: learn where the parts that it lists were staged by others."""
        if not self._peers.others or listed is None:
            return
        name, upload_id = parcel.target.name, parcel.target.param("uploadId") or ""
        wanted = [[part.number, part.etag] for part in self._staged.missing(name, upload_id, listed)]
        if not wanted:
            return
        question = {"kind": "staged", "name": encode_name(name), "upload": upload_id, "wanted": wanted}
        for answer in (await self._peers.call_all(question)).values():
            for number, staged in answer["staged"]:
                self._staged.add(name, upload_id, int(number), decode_staged(staged))

    async def hand_over(self, question: Document) -> Document:
        """What another worker asks before it completes an upload; it is its to know from then on."""
        name, upload_id = decode(lambda: (decode_name(question["name"]), str(question["upload"])))
        known = self._staged.known(name, upload_id, decode(lambda: _listed(question["wanted"])))
        if known:
            await self._tiers.flush()  # so that the other finds it in the tier that both have
            self._staged.end(name, upload_id)
        return {"staged": [[number, encode_staged(staged)] for number, staged in known]}


def _listed(document: Sequence[Sequence[object]]) -> list[UploadedPart]:
    return [UploadedPart(int(str(number)), str(etag)) for number, etag in document]
