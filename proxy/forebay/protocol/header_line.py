"""Header lines: checks that a name and a value from elsewhere (a query, a form, metadata) can be a header line.

https://www.rfc-editor.org/rfc/rfc9110#section-5.5, https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
"""

import re
from typing import Final

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
"""A token, in lower case."""
# Characters that end a header line, or that some parser could take for its end.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def can_be_header(name: str, value: str) -> bool:
    """Returns whether these are the name, in lower case, and the value of one header line."""
    return HEADER_NAME.fullmatch(name) is not None and _CONTROL.search(value) is None
