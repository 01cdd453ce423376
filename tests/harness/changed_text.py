"""A text with one character replaced, inserted or deleted, as hypothesis draws it."""

from typing import Final

from hypothesis import strategies as st

_CHARACTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~=&/%?;:, "
"""Those of requests: of a query, of dates, of signatures."""


def changed_text(text: str, data: st.DataObject) -> str:
    """The text with one change, which may leave it as it was."""
    at = data.draw(st.integers(0, len(text) - 1))
    how = data.draw(st.sampled_from(["replace", "insert", "delete"]))
    other = "" if how == "delete" else data.draw(st.sampled_from(_CHARACTERS))
    return text[:at] + other + text[at + (how != "insert") :]
