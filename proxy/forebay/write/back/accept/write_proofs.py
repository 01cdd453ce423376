"""Write proofs: kinds of writes that the origin is known to accept, as it has accepted one of the kind recently.

    a write went through, or was persisted ──> proof: which kind, under which folder ──> for a lease
    a probe succeeded (write_probe)        ──┘
    a write of that kind was refused       ──> no proof any more
    a bucket's configuration was written   ──> no proof of the bucket any more
    the origin's credential was changed    ──> no proof at all

A write is acknowledged here only under a proof, so a missing permission or bucket is seen by its client, in time. What
is proven is Forebay's own right: a principal with a credential of its own at the origin writes through.

All workers of a node share their proofs by messages. A lost message costs a probe, or a write that the origin refuses
later.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.protocol.header_map import Headers

K = TypeVar("K")

MAX_PROOFS: Final = 10_000
OUTGROWN_SECONDS: Final = 24 * 3600.0
"""Seconds in which uploads of an object go through after one that was larger than the journal."""
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


class _Leases(Generic[K]):
    """Facts by key, each for a lease of so many `seconds` from when it was set, MAX_PROOFS at most.

    A small PUT looks up three facts and sets one: 7,300 instructions here, 44,000 with cachetools' TTLCache, which is
    3 % more of such a PUT's 1.14 million (callgrind).
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._values: dict[K, tuple[bool, float]] = {}
        """The values, and the times at which they expire, in ascending order."""

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> bool | None:
        """Returns what is known; None: nothing is."""
        found = self._values.get(key)
        return found[0] if found is not None and self._clock() < found[1] else None

    def __setitem__(self, key: K, value: bool) -> None:
        self.remove(key)
        self._values[key] = value, self._clock() + self._seconds
        if len(self._values) > MAX_PROOFS:
            del self._values[next(iter(self._values))]

    def remove(self, key: K) -> None:
        """Forgets the value of a key."""
        self._values.pop(key, None)

    def remove_each(self, is_removed: Callable[[K], bool]) -> None:
        """Forgets the values of these keys."""
        self._values = {key: value for key, value in self._values.items() if not is_removed(key)}

    def clear(self) -> None:
        """Forgets all values."""
        self._values.clear()


class WriteProofs:
    """The proofs of one worker. `lease`: seconds; `clock`: seconds from any origin."""

    def __init__(self, lease: float, clock: Callable[[], float], peers: Peers | None = None) -> None:
        self._proofs = _Leases[WriteProof](lease, clock)
        self._versioned = _Leases[str](lease, clock)
        self._opaque = _Leases[str](lease, clock)
        self._outgrown = _Leases[ObjectName](OUTGROWN_SECONDS, clock)
        self._peers = peers or Peers()

    def covers(self, proof: WriteProof) -> bool:
        """Returns whether the origin would accept such a write, as far as is known."""
        return self._proofs.get(proof) is True

    def add(self, proof: WriteProof) -> None:
        """The origin has accepted such a write."""
        self._change(proof, is_proven=True)

    def renew(self, proof: WriteProof) -> None:
        """The origin has accepted such a write, and every worker has learnt of it: no message is sent."""
        self._set(proof, is_proven=True)

    def revoke(self, proof: WriteProof) -> None:
        """The origin has refused such a write."""
        if self._proofs.get(proof):
            self._change(proof, is_proven=False)

    def forget_all(self) -> None:
        """Forebay signs with another credential from now on, in this worker: each of them is reloaded."""
        self._proofs.clear()

    def forget_bucket(self, bucket: str) -> None:
        """The bucket's configuration was changed: it may keep versions, encrypt or refuse writes from now on."""
        self._peers.notify({"kind": "write_proof", "bucket": bucket, "changed": True})
        self._forget_bucket(bucket)

    def learn(self, bucket: str, headers: Headers) -> None:
        """Learns from the origin's answer to a write whether the bucket keeps versions, or encrypts with KMS."""
        if has_opaque_etags(headers):
            self.set_opaque_etags(bucket)
        if "x-amz-version-id" in headers:
            self.set_versioned(bucket, versioned=True)

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
        return self._opaque.get(bucket) is True

    def bucket_obstacle(self, bucket: str) -> str | None:
        """Returns what is known of a bucket whose writes go through; None: nothing is."""
        if self._versioned.get(bucket):
            return "the bucket keeps versions"
        if self._opaque and self._opaque.get(bucket):
            return "the bucket's ETags are not known beforehand"
        return None

    def set_opaque_etags(self, bucket: str) -> None:
        """The origin has shown that the bucket's ETags are no MD5s."""
        if not self._opaque.get(bucket):
            self._peers.notify({"kind": "write_proof", "bucket": bucket, "opaque": True})
        self._opaque[bucket] = True

    def has_outgrown(self, name: ObjectName) -> bool:
        """Returns whether an upload of the object was lately larger than the journal."""
        return self._outgrown.get(name) is True

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
            elif "changed" in message:
                self._forget_bucket(bucket)
            else:
                self._versioned[bucket] = message.get("versioned") is True
            return
        proof = decode(lambda: WriteProof(str(message["write"]), str(message["folder"])))
        self._set(proof, is_proven=message.get("proven") is True)

    def _forget_bucket(self, bucket: str) -> None:
        self._proofs.remove_each(lambda proof: proof.folder.startswith(f"{bucket}/"))
        self._versioned.remove(bucket)
        self._opaque.remove(bucket)

    def _change(self, proof: WriteProof, *, is_proven: bool) -> None:
        if is_proven is not self.covers(proof):
            self._peers.notify(
                {"kind": "write_proof", "write": proof.kind, "folder": proof.folder, "proven": is_proven}
            )
        self._set(proof, is_proven=is_proven)

    def _set(self, proof: WriteProof, *, is_proven: bool) -> None:
        if is_proven:
            self._proofs[proof] = True
        else:
            self._proofs.remove(proof)


def proof_of(operation: str, name: ObjectName) -> WriteProof | None:
    """Returns the proof that a write needs, or makes: one for each folder at the top of a bucket. None: of no use."""
    kind = _KINDS.get(operation)
    return None if kind is None else WriteProof(kind, f"{name.bucket}/{name.key.partition('/')[0]}")
