"""Error responses of S3 and OSS, as the client library's errors.

A signature is valid for 15 minutes around its time. Where the server's Date says that the clocks differ by more, the
message of a refusal says so too: a HEAD has no code of its error, and a server seldom says by how much. For the same
reason it names the region of a bucket that is not in the client's: redirects are not followed, as the signature holds
for one host and one region.
"""

import time
from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.dates import parse_http_date
from forebay.protocol.xml.xml_tree import read_tree
from forebay_client.client_errors import BodyCorrupt, ClientError, error_of_response
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

_MAX_ELEMENTS: Final = 100
_MAX_SIZE: Final = 64 << 10
_MAX_SKEW: Final = 15 * 60 - 10
"""Seconds. What S3 and OSS tolerate, less what an answer may take."""
_REQUEST_IDS: Final = ("x-amz-request-id", "x-oss-request-id")
_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_REASONS: Final = {
    **dict.fromkeys(_REDIRECTS, "the server refers to another address"),
    304: "the object has not changed",
    400: "the request is refused",
    403: "access is denied",
    404: "there is no such object or bucket",
    412: "the object is another than the request's condition names",
    416: "the range begins behind the end of the object",
}


def error_code(response: ObjectResponse) -> tuple[str, str]:
    """Code and message of an error document; both empty where there is none."""
    if not len(response.body):
        return "", ""
    try:
        tree = read_tree(bytes(response.body), max_size=_MAX_SIZE, max_elements=_MAX_ELEMENTS)
    except MalformedXml:
        return "", ""
    return tree.text_at("Code").strip(), tree.text_at("Message").strip()


def request_id_of(response: ObjectResponse) -> str | None:
    """The id under which the server knows the request; None: it names none."""
    return next((response.headers[name] for name in _REQUEST_IDS if name in response.headers), None)


def error_of(request: ObjectRequest, response: ObjectResponse, now: float | None = None) -> ClientError:
    """The error that a response means which is no success. `now`: seconds since the epoch; None: the time."""
    code, message = error_code(response)
    request_id = request_id_of(response)
    reason = message or _REASONS.get(response.status) or "the server failed"
    region = response.headers.get("x-amz-bucket-region")
    if region and (response.status in _REDIRECTS or (response.status == 400 and not message)):
        reason += f" (the bucket is in the region {region})"
    if response.status == 403:
        reason += _skew(response, time.time() if now is None else now)
    return error_of_response(response.status, code, reason, request.bucket, request.key, request_id)


def corrupt_body(reason: str, bucket: str, key: str | None, response: ObjectResponse) -> BodyCorrupt:
    """The error of a success whose body is not what it should be."""
    request_id = request_id_of(response)
    return BodyCorrupt(reason, bucket=bucket, key=key, status=response.status, request_id=request_id)


def _skew(response: ObjectResponse, now: float) -> str:
    """Returns a sentence on the clocks; empty where they agree, or where the server does not say its time."""
    date = parse_http_date(response.headers.get("date", ""))
    ahead = now - date if date is not None else 0.0
    if abs(ahead) < _MAX_SKEW:
        return ""
    where = "ahead of" if ahead > 0 else "behind"
    return f" (this machine's clock is {abs(ahead):.0f} s {where} the server's: set the one that is wrong)"
