"""Requests of web pages (`server.cors`): preflights are answered, and responses get the headers that the rules of the
bucket allow (forebay.request.bucket_cors).

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from forebay.core.request_record import RequestRecord
from forebay.policy.cors import cors_headers
from forebay.protocol.cors_preflight import PREFLIGHT, preflight_refusal
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.target import Target
from forebay.request.bucket_cors import BucketCors
from forebay.request.cors_reply import CorsReply


class CorsFrontend:
    """Keeps no state: `cors` has the rules."""

    def __init__(self, cors: BucketCors) -> None:
        self._cors = cors

    async def wrap_reply(self, reply: ObjectReply, request: Request, target: Target) -> ObjectReply:
        """The reply to a request with an Origin header, with the headers that the bucket's rules add to it."""
        if target.bucket is None or request.method == PREFLIGHT:
            return reply
        rules = await self._cors.rules(target.bucket)
        headers = cors_headers(rules, request.headers["Origin"], request.method)
        return reply if headers is None else CorsReply(reply, headers)

    async def answer_preflight(
        self, request: Request, target: Target, reply: ObjectReply, record: RequestRecord, *, answers_pages: bool
    ) -> None:
        """Answers a preflight by the bucket's rules. Raises S3Error where none allows it, or pages are not answered."""
        headers, allowed = request.headers, None
        method, site = headers.get("Access-Control-Request-Method"), headers.get("Origin")
        if answers_pages and target.bucket is not None and method and site:
            names = ",".join(headers.getall("Access-Control-Request-Headers", ())).split(",")
            allowed = cors_headers(await self._cors.rules(target.bucket), site, method, names)
        if allowed is None:
            raise preflight_refusal(target, request.headers)
        record.operation = "Preflight"
        await reply.start(200, (*allowed, ("x-amz-request-id", record.request_id)), 0)
        await reply.finish()
