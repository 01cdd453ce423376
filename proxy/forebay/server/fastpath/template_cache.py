"""The shapes that the clients of a worker have, for connections that don't know theirs: new ones, and those over which
a client sends heads of more than one shape in turns (HEAD and GET, with a range and without).

A shape is found by the names of a head's lines, which are an SDK's own, and then tried: what it fits is for the shape
to say. Only the proof of a signature makes one (forebay.server.fastpath.head_template), so an outsider can neither
fill this nor
push anything out. Bounded in number; all leave when the policy is another.
"""

from collections import OrderedDict
from typing import Final

from forebay.request.admission import GatewayPolicy
from forebay.server.fastpath.head_template import HeadTemplate, TemplateMatch

MAX_TEMPLATES: Final = 64
"""Shapes that are kept. Each remembers times of signing, some hundred bytes apiece."""


class TemplateCache:
    """See the module."""

    def __init__(self) -> None:
        self._policy: GatewayPolicy | None = None
        self._by_names: dict[tuple[bytes, ...], list[HeadTemplate]] = {}
        self._recency: OrderedDict[HeadTemplate, tuple[bytes, ...]] = OrderedDict()
        """In the order of use, the least recent first; and the names they are found by."""

    def __len__(self) -> int:
        return len(self._recency)

    def lookup(self, data: bytes, policy: GatewayPolicy) -> tuple[HeadTemplate, TemplateMatch] | None:
        """The shape that the head `data` has, and what it says beyond it."""
        if policy is not self._policy:
            return None
        for template in self._by_names.get(_names(data), ()):
            match = template.match(data)
            if match is not None:
                self._recency.move_to_end(template)
                return template, match
        return None

    def add(self, data: bytes, template: HeadTemplate) -> None:
        """Keep the shape of the head `data`."""
        if template.policy is not self._policy:
            self._policy = template.policy
            self._by_names.clear()
            self._recency.clear()
        names = _names(data)
        # The latest first: of two that differ in the day of their key, it is the one that is wanted.
        self._by_names.setdefault(names, []).insert(0, template)
        self._recency[template] = names
        if len(self._recency) > MAX_TEMPLATES:
            oldest, names = self._recency.popitem(last=False)
            self._by_names[names].remove(oldest)
            if not self._by_names[names]:
                del self._by_names[names]


def _names(data: bytes) -> tuple[bytes, ...]:
    """The names of the lines of a head, as they are spelt."""
    return tuple([line.partition(b":")[0] for line in data.split(b"\r\n")[1:]])
