"""Text as it stands between the tags of a document. Keys may hold what XML 1.0 has no way to carry, not even escaped:
each such character becomes U+FFFD, so that the document stays readable."""

import re
from typing import Final
from xml.sax.saxutils import escape

_NOT_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def escape_text(value: str) -> str:
    """`value`, escaped."""
    # A bare carriage return would be read back as a newline.
    return escape(_NOT_XML.sub("\ufffd", value), {"\r": "&#13;"})
