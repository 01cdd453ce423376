"""Write proofs: what the origin has accepted lately, by principal, operation and folder."""

from forebay.core.names import ObjectName
from forebay.write.back.write_proofs import WriteProofs

NAME = ObjectName("b", "ckpt/step-1/shard")


def test_a_proof_covers_its_folder_for_its_lease() -> None:
    now = 0.0
    proofs = WriteProofs(10.0, lambda: now)
    assert not proofs.covers("p", "PutObject", NAME)
    proofs.record("p", "PutObject", NAME, versioned=False)
    assert proofs.covers("p", "PutObject", ObjectName("b", "ckpt/step-2/other"))
    for principal, operation, name in (
        ("q", "PutObject", NAME),
        ("p", "DeleteObject", NAME),
        ("p", "PutObject", ObjectName("b", "other/x")),
        ("p", "PutObject", ObjectName("c", "ckpt/step-1/shard")),
    ):
        assert not proofs.covers(principal, operation, name)
    now = 10.0
    assert not proofs.covers("p", "PutObject", NAME)


def test_a_refusal_ends_the_proof() -> None:
    proofs = WriteProofs(10.0, lambda: 0.0)
    proofs.record("p", "PutObject", NAME, versioned=True)
    assert proofs.is_versioned("b")
    proofs.revoke("p", "PutObject", NAME)
    assert not proofs.covers("p", "PutObject", NAME)
