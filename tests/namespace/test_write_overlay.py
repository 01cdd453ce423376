"""The overlay: written keys, in order, and what is known of them."""

from forebay.core.fences import Tick
from forebay.namespace.write_overlay import MAX_WRITTEN, KnownEntry, WriteOverlay


def test_a_written_key_is_unknown_until_it_is_learnt() -> None:
    overlay = WriteOverlay()
    overlay.mark("b")
    assert overlay.known("b") is None
    overlay.learn("b", KnownEntry(None, Tick(1)))
    assert overlay.known("b") == KnownEntry(None, Tick(1))
    overlay.mark("b")
    assert overlay.known("b") is None
    assert len(overlay) == 1


def test_nothing_is_learnt_of_a_key_that_was_not_written() -> None:
    overlay = WriteOverlay()
    overlay.learn("b", KnownEntry("x", Tick(1)))
    assert overlay.known("b") is None
    assert not overlay.is_written("b")


def test_keys_between_two_ends() -> None:
    overlay = WriteOverlay()
    for key in ("c", "a", "\U0001f600", "\uffee", "b"):
        overlay.mark(key)
    assert overlay.between("a", "c", inclusive=False) == ["b", "c"]
    assert overlay.between("a", "b", inclusive=True) == ["a", "b"]
    assert overlay.between("c", None, inclusive=False) == ["\uffee", "\U0001f600"]


def test_an_overlay_of_too_many_keys_is_full() -> None:
    overlay = WriteOverlay()
    for number in range(MAX_WRITTEN + 1):
        assert not overlay.is_full
        overlay.mark(f"{number:06d}")
    assert overlay.is_full
