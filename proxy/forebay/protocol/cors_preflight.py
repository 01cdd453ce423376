"""CORS preflights: the refusal of an OPTIONS request.

It is S3's response for a bucket without CORS rules, whatever the client; an incomplete preflight gets an error that
names the missing header. Which preflights are allowed is decided by forebay.policy.cors.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTOPTIONSobject.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors-troubleshooting.html
"""

from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target

PREFLIGHT: Final = "OPTIONS"


def preflight_refusal(target: Target, headers: Headers) -> S3Error:
    """Returns the error response to a request with the method `PREFLIGHT`."""
    if not headers.get("Origin"):
        return S3Error("BadRequest", "A preflight needs the Origin header.")
    method = headers.get("Access-Control-Request-Method")
    if not method:
        return S3Error("BadRequest", "A preflight needs the Access-Control-Request-Method header.")
    kind = "OBJECT" if target.key is not None else "BUCKET"
    return S3Error("AccessForbidden", "CORSResponse: Forebay lets no other site ask.", Method=method, ResourceType=kind)
