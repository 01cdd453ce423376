"""Path patterns over `bucket/key`: what rules and grants are scoped with.

    *      any characters within a segment, also none
    **     any characters, slashes included, also none; `a/**/b` matches `a/b` as well
    ?      one character, not a slash
    else   itself: `[`, `{` and `\\` are ordinary characters of S3 keys

Matching is of the whole path, case-sensitive, on the decoded value; nothing is normalised (`..` is two dots).

A key is the attacker's choice, so a match takes at most one step a character, whatever key and pattern are. The
pattern is a row of single-character tokens with loops before some of them; the set of places one may be in after some
characters is a bit mask (bit i: i tokens are matched). The step from one set to the next by one character is computed
once and remembered:

    datasets/*.bin      d a t a s e t s / . b i n        the prefix up to the first wildcard and the suffix after the
                                         ^               last are compared as strings; only what is left is stepped
                                         loop: not `/`   through
"""

from typing import Final

from forebay.settings.path_checks import PATHS_ALLOWED, path_problem

MAX_REMEMBERED_STEPS: Final = 4096
"""Steps kept for a pattern. Keys with many different characters must not grow it without end."""

_WILDCARDS: Final = "*?"
# A name for `?` among the accepted characters that no character of a key equals, not even a `?`.
_ANY_BUT_SLASH: Final = "any but slash"


class Pattern:
    """A compiled path pattern. Raises ValueError for a text that is a mistake (see settings.path_checks)."""

    __slots__ = (
        "_accepts",
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
        self._prefix = _literal_head(text)
        self._suffix = _literal_head(text[::-1])[::-1] if self._prefix != text else ""
        # `/**/` may stand for one slash, so the slash before it is no part of what must come last.
        if text.removesuffix(self._suffix).endswith("**") and self._suffix.startswith("/"):
            self._suffix = self._suffix[1:]
        self._start = self._walk(self._closed(1), self._prefix)

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
        return bool(self._walk(self._start, path, len(self._prefix)) & self._final)

    def covers_prefix(self, prefix: str) -> bool:
        """Whether every path that starts with `prefix` is matched, whatever follows.

        Conservative: True is certain; False is also said of a few patterns that cover it in a roundabout way. An empty
        prefix asks whether everything is matched: only `**` does.
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
        # Only where a token has just been matched: within a loop that has begun, nothing may be skipped any more.
        following = self._closed((state & accepted) << 1) | (state & loops)
        if len(self._steps) >= MAX_REMEMBERED_STEPS:
            self._steps.clear()
        self._steps[state, character] = following
        return following

    def _closed(self, state: int) -> int:
        """The state with what may be skipped skipped: the slash of a `**/` that stands for nothing."""
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


def _literal_head(text: str) -> str:
    """What stands before the first wildcard."""
    ends = [text.index(wildcard) for wildcard in _WILDCARDS if wildcard in text]
    return text[: min(ends)] if ends else text
