"""The template cache: the head templates of a worker's clients, for connections that have none that matches.

Those are new connections, and connections whose client alternates between templates (HEAD and GET, with a range and
without). Templates are found by the names of a head's lines, which are an SDK's own, and then matched.

Only a verified signature makes a template (forebay.server.fastpath.head_template), so an outsider can neither fill the
cache nor evict anything from it. Bounded in number, least recently used first; emptied when the policy changes.
"""

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from forebay.request.admission import GatewayPolicy
from forebay.server.fastpath.head_template import TemplateMatch

MAX_TEMPLATES: Final = 64
"""Templates kept. Each keeps times of signing, some hundred bytes apiece."""


class Template(Protocol):
    """A template of heads, for one principal under one policy."""

    policy: GatewayPolicy

    def match(self, data: bytes) -> TemplateMatch | None:
        """Returns the differences of the head `data` from the template; None if it does not match."""
        ...


T = TypeVar("T", bound=Template)


class TemplateCache(Generic[T]):
    """The templates of one worker. See the module."""

    def __init__(self) -> None:
        self._policy: GatewayPolicy | None = None
        self._by_names: dict[tuple[bytes, ...], list[T]] = {}
        self._recency: OrderedDict[T, tuple[bytes, ...]] = OrderedDict()
        """The names that each template is found by, least recently used first."""

    def __len__(self) -> int:
        return len(self._recency)

    def lookup(self, data: bytes, policy: GatewayPolicy) -> tuple[T, TemplateMatch] | None:
        """The template that the head `data` matches, and the match."""
        if policy is not self._policy:
            return None
        for template in self._by_names.get(_names(data), ()):
            match = template.match(data)
            if match is not None:
                self._recency.move_to_end(template)
                return template, match
        return None

    def add(self, data: bytes, template: T) -> None:
        """Keeps `template`, made from the head `data`."""
        if template.policy is not self._policy:
            self._policy = template.policy
            self._by_names.clear()
            self._recency.clear()
        names = _names(data)
        # The latest first: of two that differ in the day of their signing key, it is the current one.
        self._by_names.setdefault(names, []).insert(0, template)
        self._recency[template] = names
        if len(self._recency) > MAX_TEMPLATES:
            oldest, names = self._recency.popitem(last=False)
            self._by_names[names].remove(oldest)
            if not self._by_names[names]:
                del self._by_names[names]


def _names(data: bytes) -> tuple[bytes, ...]:
    """The field names of a head, as they are spelt."""
    return tuple([line.partition(b":")[0] for line in data.split(b"\r\n")[1:]])
