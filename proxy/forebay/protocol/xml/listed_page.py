"""Reads a page of ListObjectsV2 from an origin, fast: its keys, and the rest of each entry as the origin wrote it.

    <Contents><Key>a%20b</Key> <LastModified>..</LastModified><ETag>..</ETag> <Owner>..</Owner> </Contents>
              key "a b"        facts: everything else, verbatim                owner: a mark in the facts

A page of a million-key listing costs two milliseconds, a tenth of what a parser with a call for each tag would cost.
That is sound because text that could hide a tag is refused: comments, CDATA and DTDs (all begin with `<!`), characters
that XML can't carry, an entry that is not flat, a key that is not the first element. The listing is then forwarded to
the origin. So every origin's own fields (StorageClass, ChecksumAlgorithm, Type, RestoreStatus) are kept as they are,
without a list of them.

The order of keys is that of UTF-8, which is that of code points; a page in another order is refused.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.xml_tree import read_tree

MAX_PAGE_BYTES: Final = 16 << 20
"""A thousand keys of a thousand characters, however escaped."""
_ROLLED_ELEMENTS: Final = 4000
"""A thousand common prefixes, and the fields of a page."""
MAX_OWNERS: Final = 64
"""Different owners of the objects of one namespace."""

_TEXT: Final = r"[^<]*"
_ENTRY: Final = re.compile(
    rf"\s*<Key>({_TEXT})</Key>"
    r"((?:\s*<([A-Za-z0-9]+)>(?:[^<]*|(?:\s*<([A-Za-z0-9]+)>[^<]*</\4>)+\s*)</\3>|\s*<[A-Za-z0-9]+/>|\x01\d+\x02)*)\s*"
)
_OWNER: Final = re.compile(r"<Owner>(?:\s*<([A-Za-z0-9]+)>[^<]*</\1>|\s*<[A-Za-z0-9]+/>)*\s*</Owner>")
_ALLOWED: Final = bytes(byte for byte in range(256) if byte >= 0x20 or byte in b"\t\n")
"""A bare carriage return would be read as a newline; the other control characters can't be in XML."""
_REFERENCE: Final = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#(\d+)|#x([0-9A-Fa-f]+));")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_FACTS: Final = re.compile(
    r"(?=.*<LastModified>([^<]+)</LastModified>)(?=.*<ETag>([^<]*)</ETag>)(?=.*<Size>(\d+)</Size>)", re.DOTALL
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9/_.-]*")


@dataclass(slots=True)
class KeyEncoding:
    """The percent-encoding of an origin's keys where `encoding-type=url` is requested, as its pages show it.

    Amazon writes a plus for a blank and leaves the asterisk; Swift and Ceph write `%20` and `%2A`.
    """

    plus: bool = False
    asterisk: bool = False
    tilde: bool = True

    @staticmethod
    def leaves(text: str) -> bool:
        """Whether no origin encodes anything of this text."""
        return _PLAIN.fullmatch(text) is not None

    def encode(self, key: str) -> str:
        """The key as this origin writes it."""
        if self.leaves(key):
            return key
        encoded = (quote_plus if self.plus else quote)(key, safe="/*" if self.asterisk else "/")
        return encoded if self.tilde else encoded.replace("~", "%7E")

    def learn(self, encoded: str) -> None:
        """Adopts the encoding that the keys of a page show."""
        if "+" in encoded:
            self.plus = True
        elif "%20" in encoded:
            self.plus = False
        if "*" in encoded:
            self.asterisk = True
        if "%7E" in encoded:
            self.tilde = False


@dataclass(slots=True)
class ListingForm:
    """The properties that an origin's pages have in common, learnt page by page."""

    encoding: KeyEncoding = field(default_factory=KeyEncoding)
    owners: list[str] = field(default_factory=list)
    """The distinct Owner elements."""

    def owner_mark(self, owner: str) -> str:
        """The mark that stands for an Owner element in the facts of an entry. Raises MalformedXml for too many."""
        if owner not in self.owners:
            if len(self.owners) >= MAX_OWNERS:
                raise MalformedXml("too many owners")
            self.owners.append(owner)
        return owner_mark(self.owners.index(owner))


class ListedEntries(NamedTuple):
    """The entries of one page."""

    keys: list[str]
    facts: list[str]
    """The XML of each entry after its key, with a mark in place of its Owner."""
    is_truncated: bool
    max_keys: str
    """The value of max-keys that the origin repeats."""
    prefixes: Sequence[str] = ()
    """The common prefixes."""


class EntryFacts(NamedTuple):
    """The facts in the XML of an entry."""

    last_modified: str
    """The time that the origin wrote, in ISO 8601."""
    etag: str
    size: int


def owner_mark(number: int) -> str:
    """The mark of the owner with this number."""
    return f"\x01{number}\x02"


def split_owner(facts: str) -> tuple[str, int | None]:
    """The facts of an entry without the mark of its owner, and the owner's number; None: it has no owner."""
    before, mark, rest = facts.partition("\x01")
    if not mark:
        return facts, None
    number, _, behind = rest.partition("\x02")
    return before + behind, int(number)


def read_page(body: bytes, form: ListingForm, *, is_rolled: bool = False) -> ListedEntries:
    """The entries of a ListObjectsV2 document, which was requested with `encoding-type=url`, and with a delimiter if it
    `is_rolled`. Raises MalformedXml for a page that is better left to the origin."""
    if len(body) > MAX_PAGE_BYTES:
        raise MalformedXml("it is too large")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise MalformedXml("it is not UTF-8") from None
    if "<!" in text or body.translate(None, _ALLOWED):
        raise MalformedXml("it is not as plain as listings are")
    for number, owner in enumerate(form.owners):  # all at once: a page has few owners, and a thousand times
        text = text.replace(owner, owner_mark(number))
    head, *pieces = text.split("<Contents>")
    rest, keys, facts = [head], [], []
    for piece in pieces:
        inner, end, tail = piece.partition("</Contents>")
        found = _ENTRY.fullmatch(inner)
        if found is None or not end:
            raise MalformedXml("an entry is not flat")
        keys.append(found[1])
        facts.append(_with_mark(found[2], form))
        rest.append(tail)
    root = read_tree(
        "".join(rest).encode(), max_size=MAX_PAGE_BYTES, max_elements=_ROLLED_ELEMENTS if is_rolled else 1000
    )
    if root.name != "ListBucketResult" or (root.find("CommonPrefixes") is not None and not is_rolled):
        raise MalformedXml("it is no listing without a delimiter")
    is_encoded = root.text_at("EncodingType") == "url"
    keys = _decoded(keys, form.encoding, is_encoded=is_encoded)
    prefixes = [each.text_at("Prefix") for each in root.all("CommonPrefixes")]
    if is_encoded:
        prefixes = _decoded(prefixes, form.encoding, is_encoded=True)
    for names in (keys, prefixes):
        if not all(map(operator.lt, names, names[1:])):
            raise MalformedXml("its keys are not in order")
    truncated = root.text_at("IsTruncated").strip().lower()
    if truncated not in {"true", "false"} or (truncated == "true" and not keys and not prefixes):
        raise MalformedXml("it does not say how it goes on")
    return ListedEntries(keys, facts, truncated == "true", root.text_at("MaxKeys"), prefixes)


def entry_facts(facts: str) -> EntryFacts | None:
    """Returns the facts in an entry's XML; None if one is missing."""
    found = _FACTS.match(facts)
    return EntryFacts(_unescaped(found[1]).strip(), _unescaped(found[2]), int(found[3])) if found else None


def _with_mark(facts: str, form: ListingForm) -> str:
    if "<Owner>" not in facts:
        return facts
    found = _OWNER.search(facts)
    if found is None or facts.count("<Owner>") > 1 or "\x01" in facts:
        raise MalformedXml("an owner is not flat")
    return facts[: found.start()] + form.owner_mark(found[0]) + facts[found.end() :]


def _decoded(keys: list[str], encoding: KeyEncoding, *, is_encoded: bool) -> list[str]:
    """The keys themselves. Raises MalformedXml where they would be encoded otherwise than by `encoding`."""
    joined = "\n".join(keys)
    if not is_encoded:
        return [_unescaped(key) for key in keys] if "&" in joined else keys
    if _PLAIN.fullmatch(joined.replace("\n", "")):
        return keys
    encoding.learn(joined)
    try:
        decoded = [unquote_plus(_unescaped(key), errors="strict") for key in keys]
    except UnicodeDecodeError:
        raise MalformedXml("a key is not UTF-8") from None
    if any(encoding.encode(key) != _unescaped(written) for key, written in zip(decoded, keys, strict=True)):
        raise MalformedXml("keys are encoded in a way of its own")
    if any("\0" in key for key in decoded):
        raise MalformedXml("a key with NUL")
    return decoded


def _unescaped(text: str) -> str:
    if "&" not in text:
        return text
    return _REFERENCE.sub(
        lambda found: _NAMED[found[1]] if found[1] else chr(int(found[2]) if found[2] else int(found[3], 16)), text
    )
