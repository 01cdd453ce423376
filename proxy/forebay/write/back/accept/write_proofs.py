"""Write proofs: which writes the origin is known to accept, because it has accepted one like them lately.

    a write went through, or was persisted ──> proof: which kind, under which folder ──> for a lease
    a probe succeeded (write_probe)        ──┘
    a write of that kind was refused       ──> no proof any more
    the origin's credential was changed    ──> no proof at all

A write is acknowledged here only under a proof, so a missing permission or bucket is seen by its client, in time. What
is proven is Forebay's own right: a principal with a credential of its own at the origin writes through.

All workers of a node share their proofs by messages. A lost message costs a probe, or a write that the origin refuses
later.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from cachetools import TTLCache

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode

MAX_PROOFS: Final = 10_000
OUTGROWN_SECONDS: Final = 24 * 3600.0
"""For which uploads of an object go through after one that was larger than the journal."""
_KINDS: Final = {
    "PutObject": "put",
    "CopyObject": "put",
    "CreateMultipartUpload": "put",
    "CompleteMultipartUpload": "put",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
}


class WriteProof(NamedTuple):
    """A proof: the origin accepts writes of a kind below a folder."""

    kind: str
    """`put` or `delete`."""
    folder: str
    """The bucket, and the first folder of the key."""


class WriteProofs:
    """The proofs of one worker. `lease`: seconds; `clock`: seconds from any origin."""

    def __init__(self, lease: float, clock: Callable[[], float], peers: Peers | None = None) -> None:
        self._proofs: TTLCache[WriteProof, bool] = TTLCache(MAX_PROOFS, lease, clock)
        self._versioned: TTLCache[str, bool] = TTLCache(MAX_PROOFS, lease, clock)
        self._opaque: TTLCache[str, bool] = TTLCache(MAX_PROOFS, lease, clock)
        self._outgrown: TTLCache[ObjectName, bool] = TTLCache(MAX_PROOFS, OUTGROWN_SECONDS, clock)
        self._peers = peers or Peers()

    def covers(self, proof: WriteProof) -> bool:
        """Returns whether the origin would accept such a write, as far as is known."""
        return proof in self._proofs

    def add(self, proof: WriteProof) -> None:
        """The origin has accepted such a write."""
        self._change(proof, is_proven=True)

    def renew(self, proof: WriteProof) -> None:
        """The origin has accepted such a write, and every worker has learnt of it: no message is sent."""
        self._set(proof, is_proven=True)

    def revoke(self, proof: WriteProof) -> None:
        """The origin has refused such a write."""
        if proof in self._proofs:
            self._change(proof, is_proven=False)

    def forget_all(self) -> None:
        """Forebay signs with another credential from now on, in this worker: each of them is reloaded."""
        self._proofs.clear()

    def is_versioned(self, bucket: str) -> bool | None:
        """Returns whether the bucket keeps versions; None: it is not known."""
        return self._versioned.get(bucket)

    def set_versioned(self, bucket: str, *, versioned: bool) -> None:
        """The origin has shown whether the bucket keeps versions."""
        if self._versioned.get(bucket) is not versioned:
            self._peers.notify({"kind": "write_proof", "bucket": bucket, "versioned": versioned})
        self._versioned[bucket] = versioned

    def has_opaque_etags(self, bucket: str) -> bool:
        """Returns whether the bucket's ETags were seen to be no MD5s, so that none can be given beforehand."""
        return bucket in self._opaque

    def set_opaque_etags(self, bucket: str) -> None:
        """The origin has shown that the bucket's ETags are no MD5s."""
        if bucket not in self._opaque:
            self._peers.notify({"kind": "write_proof", "bucket": bucket, "opaque": True})
        self._opaque[bucket] = True

    def has_outgrown(self, name: ObjectName) -> bool:
        """Returns whether an upload of the object was lately larger than the journal."""
        return name in self._outgrown

    def set_outgrown(self, name: ObjectName) -> None:
        """An upload of the object is larger than the journal: the next one is the origin's from the beginning."""
        self._outgrown[name] = True
        self._peers.notify({"kind": "write_proof", "bucket": name.bucket, "outgrown": name.key})

    def receive(self, message: Document) -> None:
        """Adopts a proof, or a refusal, of another worker. Raises PeerUnavailable for a malformed message."""
        if "bucket" in message:
            bucket = decode(lambda: str(message["bucket"]))
            if "outgrown" in message:
                self._outgrown[ObjectName(bucket, str(message["outgrown"]))] = True
            elif "opaque" in message:
                self._opaque[bucket] = True
            else:
                self._versioned[bucket] = message.get("versioned") is True
            return
        proof = decode(lambda: WriteProof(str(message["write"]), str(message["folder"])))
        self._set(proof, is_proven=message.get("proven") is True)

    def _change(self, proof: WriteProof, *, is_proven: bool) -> None:
        if is_proven is not (proof in self._proofs):
            self._peers.notify(
                {"kind": "write_proof", "write": proof.kind, "folder": proof.folder, "proven": is_proven}
            )
        self._set(proof, is_proven=is_proven)

    def _set(self, proof: WriteProof, *, is_proven: bool) -> None:
        if is_proven:
            self._proofs[proof] = True
        else:
            self._proofs.pop(proof, None)


def proof_of(operation: str, name: ObjectName) -> WriteProof | None:
    """Returns the proof that a write needs, or makes: one for each folder at the top of a bucket. None: of no use."""
    kind = _KINDS.get(operation)
    return None if kind is None else WriteProof(kind, f"{name.bucket}/{name.key.partition('/')[0]}")
