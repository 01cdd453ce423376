"""The admin port's application: its routes, and what each of them does with a Control.

    GET    /healthz             the process is alive                 open
    GET    /readyz              requests can be served, or 503       open
    GET    /metrics             Prometheus text                      open
    GET    /v1/stats
    GET    /v1/config           PUT /v1/config (TOML)                POST /v1/config/reload
    GET    /v1/jobs             POST /v1/jobs
    GET    /v1/jobs/{id}        DELETE /v1/jobs/{id}
    GET    /v1/cache            DELETE /v1/cache
    PUT    /v1/tiers/{tier}

Handlers only read the request, ask the Control and write what it said; who may ask is forebay.server.admin.admin_gate,
what is
said when it goes wrong is forebay.server.admin.admin_errors.
"""

from typing import Final, assert_never, get_args

from aiohttp import web

from forebay.core.events import TierName
from forebay.jobs.warm_up import MAX_CONCURRENCY
from forebay.server.admin import admin_documents as documents
from forebay.server.admin.admin_errors import AdminRefusal, bad_request, error_middleware
from forebay.server.admin.admin_gate import TOML, AdminGate, gate_middleware
from forebay.server.admin.admin_schema import (
    ConfigChanged,
    Control,
    Document,
    NoConfigFile,
    NoSuchTier,
    Ready,
    Resized,
    WarmKeys,
    WarmOrder,
    WarmPrefix,
)
from forebay.server.admin.request_reader import (
    MAX_CONFIG_BODY,
    MAX_JOB_BODY,
    bounded,
    bucket_name,
    fields_of,
    key_text,
    query_of,
    whole_number,
)
from forebay.settings.redaction import redact

MAX_LISTING: Final = 1000


def admin_application(control: Control, gate: AdminGate) -> web.Application:
    """The application to be served on the admin address. It holds no state and starts nothing of its own."""
    routes = _Routes(control)
    # aiohttp's own limit on bodies concerns request.read(), which nothing here calls; see bodies.bounded.
    application = web.Application(middlewares=[error_middleware, gate_middleware(gate)])
    application.on_response_prepare.append(_head)
    router = application.router
    router.add_get("/healthz", routes.healthz)
    router.add_get("/readyz", routes.readyz)
    router.add_get("/metrics", routes.metrics)
    router.add_get("/v1/stats", routes.stats, allow_head=False)
    router.add_get("/v1/config", routes.config, allow_head=False)
    router.add_put("/v1/config", routes.replace_config)
    router.add_post("/v1/config/reload", routes.reload_config)
    router.add_get("/v1/jobs", routes.jobs, allow_head=False)
    router.add_post("/v1/jobs", routes.start_job)
    router.add_get("/v1/jobs/{id}", routes.job, allow_head=False)
    router.add_delete("/v1/jobs/{id}", routes.cancel_job)
    router.add_get("/v1/cache", routes.cached, allow_head=False)
    router.add_delete("/v1/cache", routes.purge)
    router.add_put("/v1/tiers/{tier}", routes.resize)
    return application


async def _head(_request: web.Request, response: web.StreamResponse) -> None:
    # Instead of the versions of Python and aiohttp, which are nobody's business.
    response.headers["Server"] = "forebay"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"


class _Routes:
    def __init__(self, control: Control) -> None:
        self._control = control

    async def healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(self, _request: web.Request) -> web.Response:
        answer = await self._control.readiness()
        return web.json_response(documents.ready_document(answer), status=200 if isinstance(answer, Ready) else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        text = await self._control.metrics()
        # Set as a header, because `content_type=` refuses the version that Prometheus wants beside it.
        return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def stats(self, request: web.Request) -> web.Response:
        query_of(request, ())
        return web.json_response(documents.figures_document(await self._control.stats()))

    async def config(self, request: web.Request) -> web.Response:
        query_of(request, ())
        return web.json_response(redact(await self._control.config()))

    async def replace_config(self, request: web.Request) -> web.Response:
        query_of(request, ())
        if request.content_type != TOML:
            raise AdminRefusal(415, "content_type", f"This takes Content-Type {TOML}.")
        body = await bounded(request, MAX_CONFIG_BODY)
        try:
            toml = body.decode()
        except UnicodeDecodeError as error:
            raise bad_request("The body is not UTF-8, which TOML has to be.") from error
        return web.json_response(documents.changed_document(await self._control.replace_config(toml)))

    async def reload_config(self, request: web.Request) -> web.Response:
        query_of(request, ())
        await fields_of(request, ())
        answer = await self._control.reload_config()
        match answer:
            case ConfigChanged():
                return web.json_response(documents.changed_document(answer))
            case NoConfigFile():
                raise AdminRefusal(409, "no_config_file", "Forebay was started without a configuration file.")
            case _:
                assert_never(answer)

    async def jobs(self, request: web.Request) -> web.Response:
        query_of(request, ())
        jobs = await self._control.jobs()
        return web.json_response({"jobs": [documents.job_document(job) for job in jobs], "note": documents.JOBS_END})

    async def start_job(self, request: web.Request) -> web.Response:
        query_of(request, ())
        fields = await fields_of(request, ("bucket", "prefix", "keys", "concurrency"), MAX_JOB_BODY)
        job = await self._control.start_job(_order(fields))
        return web.json_response(documents.job_document(job), status=201, headers={"Location": f"/v1/jobs/{job.id}"})

    async def job(self, request: web.Request) -> web.Response:
        query_of(request, ())
        job = await self._control.job(request.match_info["id"])
        if job is None:
            raise _no_such_job()
        return web.json_response(documents.job_document(job))

    async def cancel_job(self, request: web.Request) -> web.Response:
        query_of(request, ())
        await fields_of(request, ())
        job = await self._control.cancel_job(request.match_info["id"])
        if job is None:
            raise _no_such_job()
        return web.json_response(documents.job_document(job))

    async def cached(self, request: web.Request) -> web.Response:
        query = query_of(request, ("bucket", "prefix", "after", "limit"))
        limit = query.get("limit", str(MAX_LISTING))
        if not limit.isascii() or not limit.isdecimal() or len(limit) > 9:
            raise bad_request(f"'limit' must be a whole number from 1 to {MAX_LISTING}.")
        listing = await self._control.list_cached(
            bucket_name(query.get("bucket")),
            key_text(query.get("prefix", ""), "prefix"),
            key_text(query.get("after", ""), "after"),
            whole_number(int(limit), "limit", 1, MAX_LISTING),
        )
        return web.json_response(documents.listing_document(listing))

    async def purge(self, request: web.Request) -> web.Response:
        query = query_of(request, ("bucket", "prefix"))
        await fields_of(request, ())
        answer = await self._control.purge(
            bucket_name(query.get("bucket")), key_text(query.get("prefix", ""), "prefix")
        )
        return web.json_response(documents.purged_document(answer))

    async def resize(self, request: web.Request) -> web.Response:
        query_of(request, ())
        size = (await fields_of(request, ("size",))).get("size")
        if not isinstance(size, str) or not 0 < len(size) <= 64:
            raise bad_request("'size' is needed, as text: a number and a unit, e.g. \"4GiB\".")
        answer = await self._control.resize(_tier(request.match_info["tier"]), size)
        match answer:
            case Resized():
                return web.json_response(documents.resized_document(answer))
            case NoSuchTier():
                raise AdminRefusal(
                    409, "tier_off", "Forebay runs without this tier; it needs a configuration and a restart."
                )
            case _:
                assert_never(answer)


def _tier(name: str) -> TierName:
    for tier in get_args(TierName):
        if tier == name:
            known: TierName = tier
            return known
    raise AdminRefusal(404, "no_such_tier", f"There are the tiers {' and '.join(get_args(TierName))}.")


def _no_such_job() -> AdminRefusal:
    return AdminRefusal(404, "no_such_job", f"There is no such job. {documents.JOBS_END}")


def _order(fields: Document) -> WarmOrder:
    bucket = bucket_name(fields.get("bucket"))
    concurrency = fields.get("concurrency")
    if concurrency is not None:
        concurrency = whole_number(concurrency, "concurrency", 1, MAX_CONCURRENCY)
    keys = fields.get("keys")
    if keys is None:
        return WarmPrefix(bucket, key_text(fields.get("prefix", ""), "prefix"), concurrency)
    if "prefix" in fields:
        raise bad_request("A job has either a prefix or keys, not both.")
    if not isinstance(keys, list) or not keys:
        raise bad_request("'keys' must be a list of at least one key.")
    if "" in keys:
        raise bad_request("A key can't be empty.")
    return WarmKeys(bucket, tuple(key_text(key, "keys") for key in keys), concurrency)
