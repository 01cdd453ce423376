"""Path patterns over `bucket/key`: the scopes of rules and grants.

    *      any characters within a segment, also none
    **     any characters, slashes included, also none; `a/**/b` matches `a/b` as well
    ?      one character, not a slash
    else   itself: `[`, `{` and `\\` are ordinary characters of S3 keys

Matching is of the whole path, case-sensitive, on the decoded value; nothing is normalised (`..` is two dots).

An attacker chooses the key, so a match takes at most one step a character, whatever the key and the pattern. The
pattern is compiled to an automaton: a row of single-character tokens, with loops before some of them. Its state is a
bit mask (bit i: i tokens are matched). Each transition is computed once and cached:

    datasets/*.bin      d a t a s e t s / . b i n        the prefix up to the first wildcard and the suffix after the
                                         ^               last are compared as strings; only the middle is stepped
                                         loop: not `/`   through
"""

from typing import Final

from forebay.settings.path_checks import PATHS_ALLOWED, path_problem

MAX_REMEMBERED_STEPS: Final = 4096
"""Cached transitions of a pattern: a bound against keys with many different characters."""

_WILDCARDS: Final = "*?"
# The token of `?` in `_accepts`: longer than one character, so that it equals no character of a key.
_ANY_BUT_SLASH: Final = "any but slash"


class Pattern:
    """A compiled path pattern. Raises ValueError for a malformed text (see settings.path_checks)."""

    __slots__ = (
        "_accepts",
        "_covers",
        "_final",
        "_loops",
        "_optional",
        "_prefix",
        "_segment_loops",
        "_start",
        "_steps",
        "_suffix",
        "text",
    )

    def __init__(self, text: str) -> None:
        problem = path_problem(text)
        if problem is not None:
            raise ValueError(f"{PATHS_ALLOWED} ({problem})")
        self.text = text
        self._accepts: dict[str, int] = {}
        self._steps: dict[tuple[int, str], int] = {}
        self._compile(text)
        self._prefix = literal_prefix(text)
        self._suffix = literal_prefix(text[::-1])[::-1] if self._prefix != text else ""
        # `/**/` may stand for one slash, so the slash before it is no part of what must come last.
        if text.removesuffix(self._suffix).endswith("**") and self._suffix.startswith("/"):
            self._suffix = self._suffix[1:]
        self._start = self._walk(self._closed(1), self._prefix)
        self._covers = bool(self._start & self._final & self._loops)
        """Whether everything behind the prefix is matched, as by `bucket/**`: no step is needed."""

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, path: str) -> bool:
        """Whether the whole of `path` (`bucket/key`) is matched."""
        if not path.startswith(self._prefix) or not path.endswith(self._suffix):
            return False
        return self._covers or bool(self._walk(self._start, path, len(self._prefix)) & self._final)

    def covers_prefix(self, prefix: str) -> bool:
        """Whether every path that starts with `prefix` is matched, whatever follows.

        Conservative: True is certain; False is also returned for a few patterns that cover the prefix in a roundabout
        way. Only `**` covers the empty prefix.
        """
        return bool(self._walk(self._closed(1), prefix) & self._final & self._loops)

    def reaches_into(self, prefix: str) -> bool:
        """Whether some longer path that starts with `prefix` is matched."""
        at_end_for_good = self._final & ~self._loops & ~self._segment_loops
        return bool(self._walk(self._closed(1), prefix) & ~at_end_for_good)

    def _walk(self, state: int, path: str, start: int = 0) -> int:
        """The state after the characters of `path` from `start` on; stops early when the rest changes nothing."""
        steps = self._steps
        settled = self._final & self._loops
        for position in range(start, len(path)):
            if not state or state & settled:
                return state
            character = path[position]
            following = steps.get((state, character))
            state = self._step(state, character) if following is None else following
        return state

    def _step(self, state: int, character: str) -> int:
        accepted = self._accepts.get(character, 0)
        loops = self._loops
        if character != "/":
            accepted |= self._accepts.get(_ANY_BUT_SLASH, 0)
            loops |= self._segment_loops
        # Only right after a token: within a loop that has begun, an optional slash may not be skipped.
        following = self._closed((state & accepted) << 1) | (state & loops)
        if len(self._steps) >= MAX_REMEMBERED_STEPS:
            self._steps.clear()
        self._steps[state, character] = following
        return following

    def _closed(self, state: int) -> int:
        """The state with optional tokens skipped: the slash of a `**/` that matches nothing."""
        return state | ((state & self._optional) << 1)

    def _compile(self, text: str) -> None:
        loops = segment_loops = optional = tokens = position = 0
        # `a/**/*` is a roundabout `a/**`, and `**/**/` a roundabout `**/`; skipped slashes must not follow each other.
        while "**/**/" in text:
            text = text.replace("**/**/", "**/")
        if text == "**/*" or text.endswith("/**/*"):
            text = text[:-2]
        while position < len(text):
            if text.startswith("**", position):
                loops |= 1 << tokens
                if text.startswith("**/", position) and (position == 0 or text[position - 1] == "/"):
                    optional |= 1 << tokens
                position += 2
                continue
            if text[position] == "*":
                segment_loops |= 1 << tokens
            else:
                token = _ANY_BUT_SLASH if text[position] == "?" else text[position]
                self._accepts[token] = self._accepts.get(token, 0) | 1 << tokens
                tokens += 1
            position += 1
        self._loops, self._segment_loops, self._optional = loops, segment_loops, optional
        self._final = 1 << tokens


def literal_prefix(text: str) -> str:
    """The text before the first wildcard."""
    ends = [text.index(wildcard) for wildcard in _WILDCARDS if wildcard in text]
    return text[: min(ends)] if ends else text
