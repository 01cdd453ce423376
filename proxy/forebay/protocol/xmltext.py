"""Text as it stands between the tags of a document. Keys may hold what XML 1.0 has no way to carry, not even escaped:
each such character becomes U+FFFD, so that the document stays readable."""

import re
from typing import Final
from xml.sax.saxutils import escape

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(value: str) -> str:
    """`value`, escaped."""
    # A bare carriage return would be read back as a newline.
    return escape(_NOT_XML.sub("\ufffd", value), {"\r": "&#13;"})
