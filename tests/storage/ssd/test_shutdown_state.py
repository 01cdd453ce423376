from pathlib import Path

import pytest

from forebay.storage.ssd.shutdown_state import ShutdownState, fresh_state, read_state, write_state


def test_what_was_written_is_read(tmp_path: Path) -> None:
    state = ShutdownState("boot", clean=False, unclean_starts=2, trusted_from=12.5)
    write_state(tmp_path / "STATE", state)
    assert read_state(tmp_path / "STATE", 99.0) == state


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"\xff", b'{"boot": "x"}', b'{"unclean_starts": "x"}'])
def test_a_damaged_one_trusts_nothing_from_before(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "STATE").write_bytes(content)
    assert read_state(tmp_path / "STATE", 99.0).trusted_from == 99.0


def test_a_process_that_died_has_lost_nothing() -> None:
    assert fresh_state("boot").while_open("boot", 10).while_open("boot", 20).trusted_from == 0.0


def test_a_machine_that_went_down_may_have_lost_removals() -> None:
    assert fresh_state("boot").while_open("boot", 10).while_open("other boot", 20).trusted_from == 20


def test_and_that_stays_true_after_clean_ends() -> None:
    state = fresh_state("boot").while_open("boot", 10).while_open("other boot", 20)
    assert state.closed().while_open("other boot", 30).closed().while_open("third boot", 40).trusted_from == 20


def test_a_clean_end_before_the_machine_went_down_loses_nothing() -> None:
    assert fresh_state("boot").while_open("boot", 10).closed().while_open("other boot", 20).trusted_from == 0.0


def test_three_starts_that_did_not_last_are_hopeless() -> None:
    state = fresh_state("boot")
    seen = []
    for _ in range(4):
        seen.append(state.is_hopeless)
        state = state.while_open("boot", 10)
    assert seen == [False, False, False, True]


def test_starts_that_lasted_or_ended_well_are_not_counted() -> None:
    state = fresh_state("boot").while_open("boot", 10).while_open("boot", 10).while_open("boot", 10)
    assert not state.steady().while_open("boot", 20).is_hopeless
    assert not state.closed().while_open("boot", 20).is_hopeless
