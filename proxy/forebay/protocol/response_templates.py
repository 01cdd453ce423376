"""Response templates: the facts of whole objects, read by a pattern from heads like one that was parsed before.

    HTTP/1.1 206 Partial Content     as it was
    Server: nginx                    any text
    Content-Type: image/jpeg         as it was: most objects share it
    ETag: "..."                      read, as are Last-Modified, the version id, and the object's other fields
    Content-Length: N                read; Content-Range has to be `bytes 0-(N-1)/N`
    Connection: keep-alive           as it was

An origin sends the same fields in the same order each time. Matching takes a fifth of the time of parsing and judging
(forebay.origin.reads.verdict), which handle all other heads. A match gives the same facts as these would. Values are
printable ASCII. Checksums beside an ETag with a hyphen may be those of a part, so they are left out. Pure.
"""

import re
from typing import Final

from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.core.names import Version
from forebay.protocol.response_headers import field_roles

MAX_TEMPLATES: Final = 8
"""The most templates of one origin. There is one for each set of fields and of values that have to be equal."""
LEARNT_EVERY: Final = 64
"""The heads without a match after which one makes a new template, once there are MAX_TEMPLATES. It takes the place of
the template that matched longest ago: compiling a pattern takes as long as parsing a hundred heads."""
_SHARED: Final = frozenset(
    {
        "cache-control",
        "connection",  # whether it may carry another request
        "content-encoding",
        "content-language",
        "content-type",
        "x-amz-server-side-encryption",
        "x-amz-storage-class",  # whether the object is archived
        "x-oss-object-type",  # whether its bytes are determined by its ETag
        "x-robots-tag",
    }
)
"""Fields whose values have to be as they were."""
_TEXT: Final = "(?! )[ -~]++(?<! )"
_ETAG: Final = '"[!#-,.-~]+"'
_ETAG_OF_PARTS: Final = '"[!#-,.-~]*-[!#-~]*"'
_SIZE: Final = "[1-9][0-9]{0,17}"
_LAST: Final = "0|[1-9][0-9]{0,17}"


class ResponseTemplate:
    """A pattern of the heads of some objects."""

    __slots__ = (
        "_checksums_known",
        "_etag",
        "_headers",
        "_last",
        "_last_modified",
        "_length",
        "_pattern",
        "_read_headers",
        "_version_id",
    )

    def __init__(self, reason: str, fields: HeaderPairs, facts: ObjectFacts) -> None:
        """Makes the template of a 206 with all of an object, which had these `facts`. No two fields have one name."""
        names = tuple([name for name, _ in fields])
        roles = field_roles(names)
        assert roles is not None  # noqa: S101 # it has facts
        kept, etag = (roles.kept_with_checksums, _ETAG) if facts.checksums_known else (roles.kept, _ETAG_OF_PARTS)
        read = {roles.etag: etag, roles.length: _SIZE, roles.last_modified: _TEXT, roles.version_id: _TEXT}
        read |= {at: _TEXT for at in kept if names[at].lower() not in _SHARED}
        groups = {-1: -1}
        """The group that a field is read into, by its position."""
        lines = [re.escape(f"HTTP/1.1 206 {reason}")]
        count = 0
        for at, (name, value) in enumerate(fields):
            if at == roles.range:
                text, groups[at], count = f"bytes 0-({_LAST})/({_SIZE})", count, count + 2
            elif at in read:
                text, groups[at], count = f"({read[at]})", count, count + 1
            else:
                text = re.escape(value) if name.lower() in _SHARED else _TEXT
            lines.append(f"{re.escape(name)}: {text}")
        self._pattern = re.compile("\r\n".join((*lines, "", "")))
        self._etag, self._length, self._last = groups[roles.etag], groups[roles.length], groups[roles.range]
        self._last_modified, self._version_id = groups[roles.last_modified], groups[roles.version_id]
        self._headers, self._checksums_known = facts.headers, facts.checksums_known
        self._read_headers = [(index, names[at], groups[at]) for index, at in enumerate(kept) if at in read]

    def match(self, head: str) -> ObjectFacts | None:
        """The facts of the whole object that comes behind `head`, which ends with its empty line; None: parse it."""
        found = self._pattern.fullmatch(head)
        if found is None:
            return None
        values = found.groups()
        length, last = values[self._length], self._last
        size = int(length)
        if values[last + 1] != length or int(values[last]) != size - 1:
            return None
        headers = self._headers
        if self._read_headers:
            pairs = list(headers)
            for index, name, group in self._read_headers:
                pairs[index] = name, values[group]
            headers = tuple(pairs)
        last_modified, version_id = self._last_modified, self._version_id
        return ObjectFacts(
            Version(values[self._etag], values[version_id] if version_id >= 0 else None),
            size,
            values[last_modified] if last_modified >= 0 else "",
            headers,
            self._checksums_known,
        )


class ResponseTemplates:
    """The response templates of one origin."""

    def __init__(self) -> None:
        self._templates: list[ResponseTemplate] = []
        """The template of the latest match comes first."""
        self._made = self._unmatched = 0

    def match(self, head: str) -> ObjectFacts | None:
        """See ResponseTemplate.match."""
        for template in self._templates:
            facts = template.match(head)
            if facts is not None:
                if template is not self._templates[0]:
                    self._templates.remove(template)
                    self._templates.insert(0, template)
                return facts
        return None

    def learn(self, reason: str, fields: HeaderPairs, facts: ObjectFacts) -> None:
        """Adds a template made of a head that no template matched: of a 206 over a connection that may carry another
        request, with the whole object that `facts` describe. A head that isn't ASCII is ignored: no template can match
        it."""
        if not all(text.isascii() for text in (reason, *(value for _, value in fields))):
            return
        self._unmatched += 1
        if self._made >= MAX_TEMPLATES and self._unmatched < LEARNT_EVERY:
            return
        self._unmatched = 0
        if len({name.lower() for name, _ in fields}) < len(fields):
            return
        self._made += 1
        template = ResponseTemplate(reason, fields, facts)
        if template.match("\r\n".join([f"HTTP/1.1 206 {reason}", *map(": ".join, fields), "", ""])) == facts:
            self._templates = [template, *self._templates[: MAX_TEMPLATES - 1]]
