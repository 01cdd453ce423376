"""The order of keys: properties over any strings that are keys."""

from hypothesis import assume, given
from hypothesis import strategies as st

from forebay.policy.key_order import common_length, predecessor, prefix_end, split_key
from forebay.protocol.listing_query import LAST_CHARACTER

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0" + LAST_CHARACTER)
KEYS = st.text(CHARACTERS, min_size=1, max_size=6)
SHORT = st.text("abc\ud7ff\ue000", min_size=1, max_size=4)


@given(prefix=SHORT, key=SHORT)
def test_the_end_of_a_prefix_is_behind_its_keys_and_no_others(prefix: str, key: str) -> None:
    end = prefix_end(prefix)
    assert end is not None
    assert (prefix <= key < end) is key.startswith(prefix)


@given(key=KEYS, other=KEYS)
def test_no_key_is_between_a_key_and_its_predecessor(key: str, other: str) -> None:
    before = predecessor(key)
    assert before < key
    assert not before < other < key
    before.encode()


def test_the_last_prefix_has_no_end() -> None:
    assert prefix_end(LAST_CHARACTER) is None
    assert prefix_end("") is None
    assert prefix_end("a\ud7ff") == "a\ue000"


@given(low=SHORT, high=st.none() | SHORT, alphabet=st.sets(st.sampled_from("abc\ud7ff\ue000")))
def test_a_split_is_inside_the_interval(low: str, high: str | None, alphabet: set[str]) -> None:
    assume(high is None or low < high)
    key = split_key(low, high, sorted(alphabet))
    if key is not None:
        assert low < key
        assert high is None or key < high


def test_an_interval_is_split_in_its_middle() -> None:
    assert split_key("c17", "c93", "0123456789") == "c5"
    assert split_key("c17", "c2", "0123456789") == "c19"[:2] + "9"
    assert split_key("c", "c", "0123456789") is None
    assert split_key("9", None, "0123456789") == "95"


def test_what_both_ends_begin_with() -> None:
    assert common_length("abc", "abd") == 2
    assert common_length("abc", None) == 0
