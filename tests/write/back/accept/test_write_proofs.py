"""Write proofs: what the origin has accepted lately, by kind and folder, in every worker."""

from typing import cast

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.write.back.accept.write_proofs import MAX_PROOFS, WriteProof, WriteProofs, proof_of

NAME = ObjectName("b", "ckpt/step-1/shard")
PUT = WriteProof("put", "b/ckpt")


class _Link:
    """The other worker's end."""

    def __init__(self) -> None:
        self.other = WriteProofs(10.0, lambda: 0.0)
        self.messages = 0

    def notify(self, message: Document) -> None:
        self.messages += 1
        self.other.receive(message)


def test_a_proof_covers_its_folder_for_its_lease() -> None:
    now = 0.0
    proofs = WriteProofs(10.0, lambda: now)
    assert not proofs.covers(PUT)
    proofs.add(PUT)
    assert proofs.covers(PUT)
    now = 9.0
    proofs.renew(PUT)
    now = 18.0
    assert proofs.covers(PUT)
    now = 19.0
    assert not proofs.covers(PUT)


@pytest.mark.parametrize(
    ("operation", "name", "proof"),
    [
        ("PutObject", NAME, PUT),
        ("CopyObject", ObjectName("b", "ckpt/step-2/other"), PUT),
        ("CreateMultipartUpload", NAME, PUT),
        ("DeleteObjects", NAME, WriteProof("delete", "b/ckpt")),
        ("PutObject", ObjectName("b", "other/x"), WriteProof("put", "b/other")),
        ("PutObject", ObjectName("c", "ckpt/step-1/shard"), WriteProof("put", "c/ckpt")),
        ("PutObjectAcl", NAME, None),
    ],
)
def test_a_proof_is_of_a_kind_and_a_folder(operation: str, name: ObjectName, proof: WriteProof | None) -> None:
    assert proof_of(operation, name) == proof


def test_workers_know_of_each_others_proofs() -> None:
    link = _Link()
    proofs = WriteProofs(10.0, lambda: 0.0, cast("Peers", link))
    for _ in range(3):
        proofs.add(PUT)
    assert (link.other.covers(PUT), link.messages) == (True, 1)
    for _ in range(3):
        proofs.revoke(PUT)
    assert (proofs.covers(PUT), link.other.covers(PUT), link.messages) == (False, False, 2)
    for versioned in (False, False, True):
        proofs.set_versioned("b", versioned=versioned)
        assert (proofs.is_versioned("b"), link.other.is_versioned("b")) == (versioned, versioned)
    assert link.messages == 4
    assert link.other.is_versioned("c") is None


def test_workers_know_which_uploads_have_outgrown_the_journal() -> None:
    link = _Link()
    proofs = WriteProofs(10.0, lambda: 0.0, cast("Peers", link))
    proofs.set_outgrown(NAME)
    for each in (proofs, link.other):
        assert each.has_outgrown(NAME)
        assert not each.has_outgrown(ObjectName("b", "ckpt"))
        assert (each.is_versioned("b"), each.has_opaque_etags("b")) == (None, False)


def test_a_malformed_message_proves_nothing() -> None:
    proofs = WriteProofs(10.0, lambda: 0.0)
    with pytest.raises(PeerUnavailable):
        proofs.receive({"kind": "write_proof", "write": "put"})


def test_another_credential_has_proven_nothing() -> None:
    proofs = WriteProofs(10.0, lambda: 0.0)
    proofs.add(PUT)
    proofs.forget_all()
    assert not proofs.covers(PUT)


def test_a_changed_bucket_has_proven_nothing() -> None:
    link = _Link()
    changed = WriteProofs(10.0, lambda: 0.0, cast("Peers", link))
    for worker in (changed, link.other):
        for folder in ("b/a", "b/c", "bc/a"):
            worker.add(WriteProof("put", folder))
        worker.set_versioned("b", versioned=False)
        worker.set_opaque_etags("b")
    changed.forget_bucket("b")
    for worker in (changed, link.other):
        assert [worker.covers(WriteProof("put", folder)) for folder in ("b/a", "b/c", "bc/a")] == [False, False, True]
        assert (worker.is_versioned("b"), worker.has_opaque_etags("b")) == (None, False)


def test_the_oldest_proofs_are_forgotten() -> None:
    proofs = WriteProofs(10.0, lambda: 0.0)
    folders = [WriteProof("put", f"b/{number}") for number in range(MAX_PROOFS + 1)]
    for each in (*folders[:MAX_PROOFS], folders[0], folders[MAX_PROOFS]):
        proofs.add(each)
    assert [proofs.covers(folders[nth]) for nth in (0, 1, 2, MAX_PROOFS)] == [True, False, True, True]
    proofs.forget_all()
    assert not any(map(proofs.covers, folders))


def test_what_a_bucket_has_shown_ends_with_the_lease() -> None:
    now = 0.0
    proofs = WriteProofs(10.0, lambda: now)
    proofs.set_versioned("b", versioned=False)
    proofs.set_opaque_etags("b")
    now = 9.9
    assert (proofs.is_versioned("b"), proofs.has_opaque_etags("b"), proofs.has_opaque_etags("c")) == (
        False,
        True,
        False,
    )
    now = 10.0
    assert (proofs.is_versioned("b"), proofs.has_opaque_etags("b")) == (None, False)
