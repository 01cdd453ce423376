"""What a browser is told that asks, before it asks, whether a page from elsewhere may (a CORS preflight): no.

Nobody signs a preflight, so nothing is asked of the origin for it, its CORS rules included, and nothing depends on who
asks. Answered as S3 answers for a bucket that has no such rules; a question that is none is told what it lacks.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTOPTIONSobject.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/cors-troubleshooting.html
"""

from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target

PREFLIGHT: Final = "OPTIONS"


def preflight_refusal(target: Target, headers: Headers) -> S3Error:
    """The answer to a request whose method is `PREFLIGHT`."""
    if not headers.get("Origin"):
        return S3Error("BadRequest", "A preflight needs the Origin header.")
    method = headers.get("Access-Control-Request-Method")
    if not method:
        return S3Error("BadRequest", "A preflight needs the Access-Control-Request-Method header.")
    kind = "OBJECT" if target.key is not None else "BUCKET"
    return S3Error("AccessForbidden", "CORSResponse: Forebay lets no other site ask.", Method=method, ResourceType=kind)
