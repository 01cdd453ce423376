"""The heads of small PUTs, read and verified by templates of earlier ones of the same client.

    head ──> matches a template? ──yes──> its values put into the headers of the first one ──> verified by the template
                 │ no                                                                              │ wrong signature
                 └──> parsed ──────────────────────> authenticated and admitted in full <──────────┘
                                                       └──> a template, for those that follow

The templates are those of reads (forebay.server.fastpath.head_template), with the same rules: equal bytes mean what
they meant before, and a match proves nothing. More differs from one PUT to the next: length, hashes and type of the
body, metadata. The proof that comes of a match names the payload of its own request, and its own signature.

Only parsing and authentication are shortened: the gateway takes every other step as for any request. Not for bodies in
signed chunks, whose seed is the whole text that was signed, nor for other signatures than version 4 in the header:
those are parsed and authenticated each time.
"""

import re
from typing import Final, Self

from multidict import CIMultiDict

from forebay.protocol.exchange import SMALL_BODY
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.sigv4 import SignedV4
from forebay.protocol.signatures.sigv4_claim import STREAMING
from forebay.protocol.target import Target
from forebay.request.admission import Admission, GatewayPolicy
from forebay.request.authentication import Proof
from forebay.server.fastpath.head_template import ANY, VARYING, HeadTemplate, TemplateMatch
from forebay.server.fastpath.request_head import MAX_HEAD_SIZE, UploadHead, parse_upload_head, upload_target
from forebay.server.fastpath.template_cache import TemplateCache

_TIME: Final = "x-amz-date"
_PAYLOAD: Final = "x-amz-content-sha256"
_LENGTH: Final = "content-length"
_UPLOAD_VARYING: Final = {
    **VARYING,
    _LENGTH: re.compile(rb"0|[1-9][0-9]{0,17}"),
    _PAYLOAD: re.compile(rb"[0-9a-f]{64}|UNSIGNED-PAYLOAD"),
    "content-md5": ANY,
    "content-type": ANY,
}
_UPLOAD_PREFIXES: Final = ("x-amz-checksum-", "x-amz-meta-")
_TIME_VALUE: Final = re.compile(rb"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE: Final = re.compile(rb"[0-9a-f]{64}")
_LEARNT: Final = 16
"""Templates that are made while no head matches one. From then on one head in so many makes another."""


class UploadHeads:
    """The heads of one worker."""

    def __init__(self) -> None:
        self._templates = TemplateCache[UploadTemplate]()
        self._last: UploadTemplate | None = None
        """The template of the last head that matched one."""
        self.unmatched = 0
        """Heads that were admitted in full since the last one that matched."""

    def read(self, data: bytes, policy: GatewayPolicy) -> "KnownUpload | None":
        """The head that `data` is, exactly, of a PUT of at most SMALL_BODY bytes; None if it is anything else.
        `policy`: that of the gateway, which a template has to be made under."""
        template = self._last
        matched = template.head.match(data) if template is not None and template.policy is policy else None
        if template is None or matched is None:
            found = self._templates.lookup(data, policy)
            template, matched = found if found is not None else (None, None)
        if template is not None and matched is not None and len(data) <= MAX_HEAD_SIZE:
            head = template.read(matched)
            if head is not None:
                self._last = template
                return KnownUpload(self, data, head, template, matched)
        head = parse_upload_head(data, SMALL_BODY)
        return KnownUpload(self, data, head) if head is not None else None

    def note_proven(self) -> None:
        """A head was verified by its template."""
        self.unmatched = 0

    def learn(self, known: "KnownUpload", target: Target, admission: Admission) -> None:
        """Makes a template of a head that was admitted in full."""
        self.unmatched += 1
        if self.unmatched > _LEARNT and self.unmatched % _LEARNT:
            return
        template = UploadTemplate.of(known.data, known.head.headers, target, admission)
        if template is not None:
            self._templates.add(known.data, template)


class UploadTemplate:
    """The template of one client's heads."""

    __slots__ = ("_authorization", "_expects_continue", "_headers", "_length", "_slots", "head", "policy", "signed")

    def __init__(self, head: HeadTemplate, signed: SignedV4, headers: Headers) -> None:
        self.head = head
        self.policy = head.policy
        self.signed = signed
        self._headers = CIMultiDict(headers)
        self._expects_continue = "expect" in headers
        self._length = head.indices[_LENGTH]
        values = {_TIME: 0, **head.indices}
        self._slots = [(name, values[name.lower()]) for name in headers if name.lower() in values]
        """The headers whose value differs, and which of the values it is."""
        self._authorization = next(
            (name, value.removesuffix(signed.signature))
            for name, value in headers.items()
            if name.lower() == "authorization"
        )
        """The header that ends in the signature, up to the signature."""

    @classmethod
    def of(cls, data: bytes, headers: Headers, target: Target, admission: Admission) -> Self | None:
        """The template of an admitted head; None if there can be none. `target` and `headers` as received."""
        signed = admission.signed
        if not isinstance(signed, SignedV4) or signed.form != "header" or signed.payload in STREAMING:
            return None
        head = HeadTemplate.build(data, target, headers, admission, _pattern_of)
        if head is None or _PAYLOAD not in head.indices:
            return None
        template = cls(head, signed, headers)
        matched = template.match(data)
        read = template.read(matched) if matched is not None else None
        return template if read is not None and list(read.headers.items()) == list(headers.items()) else None

    def match(self, data: bytes) -> TemplateMatch | None:
        """Returns the differences of the head `data` from this template; None if it does not match."""
        return self.head.match(data)

    def read(self, matched: TemplateMatch) -> UploadHead | None:
        """The head that matches, as it would be parsed; None if it is not plain."""
        line, values, signature = matched
        target, length = upload_target(line), int(values[self._length])
        if (
            target is None
            or length > SMALL_BODY
            or not _TIME_VALUE.fullmatch(values[0])
            or not _SIGNATURE.fullmatch(signature)
        ):
            return None
        headers = self._headers.copy()
        texts = b"\n".join(values).decode("ascii").split("\n")  # no value has one: see the patterns
        for name, value in self._slots:
            headers[name] = texts[value]
        name, start = self._authorization
        headers[name] = start + signature.decode("ascii")
        return UploadHead(target, headers, length, self._expects_continue)


class KnownUpload:
    """The head of one PUT. Implements forebay.request.admission.KnownHead."""

    __slots__ = ("_heads", "_matched", "_template", "data", "head")

    def __init__(
        self,
        heads: UploadHeads,
        data: bytes,
        head: UploadHead,
        template: UploadTemplate | None = None,
        matched: TemplateMatch | None = None,
    ) -> None:
        """`template`, `matched`: where it matches one, and how."""
        self._heads = heads
        self.data = data
        self.head = head
        self._template = template
        self._matched = matched

    def prove(self, policy: GatewayPolicy, target: Target, now: float) -> Proof | None:
        """The proof by the template, whose policy has to be that of the gateway."""
        template, matched = self._template, self._matched
        if template is None or matched is None or template.policy is not policy:
            return None
        if template.head.verify(matched, "PUT", target, now) is None:
            return None
        self._heads.note_proven()
        first, headers = template.signed, self.head.headers
        signed = SignedV4(
            first.access_key,
            first.form,
            headers[_TIME],
            first.scope,
            matched[2].decode("ascii"),
            first.signing_key,
            headers[_PAYLOAD],
            first.signed_headers,
        )
        return Proof(template.head.principal, signed)

    def learn(self, target: Target, admission: Admission) -> None:
        """Makes a template of it."""
        self._heads.learn(self, target, admission)


def _pattern_of(name: str) -> re.Pattern[bytes] | None:
    return ANY if name.startswith(_UPLOAD_PREFIXES) else _UPLOAD_VARYING.get(name)
