"""CORS: which headers let a page of another site read a response, by the rules of the bucket.

The first rule decides that has the site among its origins and the method among its methods and, for a preflight, all
requested headers among its headers. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors.html, https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from collections.abc import Sequence
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.protocol.xml.cors_document import CorsRule

VARY: Final = ("Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method")


def cors_headers(
    rules: Sequence[CorsRule], origin: str, method: str, requested: Sequence[str] = ()
) -> HeaderPairs | None:
    """Returns the headers that allow `origin` a request with `method`; None if no rule allows it. `requested`: the
    names of headers in the preflight."""
    names = [name.strip().lower() for name in requested if name.strip()]
    for rule in rules:
        pattern = next((each for each in rule.origins if _matches(each, origin)), None)
        if pattern is None or method not in rule.methods:
            continue
        if all(any(_matches(each, name) for each in rule.headers) for name in names):
            return _headers(rule, pattern, origin, names)
    return None


def _headers(rule: CorsRule, pattern: str, origin: str, names: Sequence[str]) -> HeaderPairs:
    pairs = [("Access-Control-Allow-Origin", "*" if pattern == "*" else origin)]
    pairs.append(("Access-Control-Allow-Methods", ", ".join(rule.methods)))
    if names:
        pairs.append(("Access-Control-Allow-Headers", ", ".join(names)))
    if rule.exposed:
        pairs.append(("Access-Control-Expose-Headers", ", ".join(rule.exposed)))
    if rule.max_age is not None:
        pairs.append(("Access-Control-Max-Age", rule.max_age))
    if pattern != "*":
        pairs.append(("Access-Control-Allow-Credentials", "true"))
    return (*pairs, VARY)


def _matches(pattern: str, text: str) -> bool:
    start, star, end = pattern.partition("*")
    if not star:
        return pattern == text
    return len(text) >= len(start) + len(end) and text.startswith(start) and text.endswith(end)
