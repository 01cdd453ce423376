"""The routes of the admin port: a table of verbs, and the one handler that carries them out.

A row names the verb, and what HTTP adds: the status, and the refusal where the verb returns None. The
fields of the request follow from the verb's signature (request_reader), the answer's JSON from its dataclass
(json_codec). Three open paths, for probes and scrapers, have no fields and are handlers of their own, as is the upload
of a list, which may be long (list_upload).
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

from aiohttp import web

from forebay.core.events import TierName
from forebay.peers.json_codec import to_json
from forebay.server.admin.admin_errors import AdminRefusal
from forebay.server.admin.change_log import change_sentence
from forebay.server.admin.control import (
    CacheVerbs,
    ConfigVerbs,
    Control,
    DataSetVerbs,
    JobVerbs,
    PinVerbs,
    PlanVerbs,
    RecordingVerbs,
    StateVerbs,
    WriteVerbs,
)
from forebay.server.admin.list_upload import receive_list
from forebay.server.admin.request_reader import MAX_JOB_BODY, MAX_SMALL_BODY, read_arguments, read_query, read_toml
from forebay.server.admin.schema.admin_schema import Job
from forebay.server.admin.schema.pending_schema import Flushed, PendingContent, PendingDiscarded, PendingRetried
from forebay.server.admin.schema.plan_schema import MAX_PLAN_BODY, PlanSent
from forebay.server.admin.schema.recording_schema import MAX_UPLOAD, RecordingStored
from forebay.settings.redaction import redact

_log: Final = logging.getLogger(__name__)

# The arguments of AdminRefusal, because the traceback of one exception, raised again and again, would grow.
_Refusal: TypeAlias = tuple[int, str, str]
_NO_SUCH_JOB: Final = 404, "no_such_job", "There is no such job; `forebay jobs` lists the latest."
_NO_SUCH_LIST: Final = 404, "no_such_list", "There is no such list (any more): each is used by one job. Send it again."
_NO_SUCH_PIN: Final = 404, "no_such_pin", "There is no pin of exactly this prefix; `forebay pins` lists the pins."
_NO_SUCH_PLAN: Final = 404, "no_such_plan", "There is no such plan, or it ended long ago; `forebay plans` lists them."
_NO_FILE: Final = (
    409,
    "no_config_file",
    "Forebay was started without a configuration file; `forebay reload FILE` loads one.",
)
_TIER_OFF: Final = 409, "tier_off", "Forebay runs without this tier: configure it, and restart Forebay."
_RECORDING: Final = "/v1/recordings/{bucket}/{name}"
_NO_SUCH_RECORDING: Final = (
    404,
    "no_such_recording",
    "There is no such recording, or it is still being made; see `forebay recordings`.",
)
_NOTHING_TO_SAVE: Final = (
    404,
    "no_such_recording",
    "There is no such recording to save: reads are recorded where a rule says `record = true`.",
)
_NO_JOURNAL: Final = 409, "no_journal", "Forebay runs without a journal: configure [journal], and restart Forebay."
_NO_SUCH_WRITE: Final = (
    404,
    "no_such_write",
    "No such write is pending (any more); see `forebay writes`.",
)
_NO_SUCH_WRITE_OF_IT: Final = 404, "no_such_write", "No such write of this object is pending (any more)."
_NO_SUCH_TIER: Final = 404, "no_such_tier", f"There are the tiers {' and '.join(get_args(TierName))}."


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the table. The verb is named by the method that declares it in server.admin.control."""

    method: str
    path: str
    verb: Callable[..., Awaitable[object]]
    status: int = 200
    if_none: _Refusal | None = None
    """The refusal where the verb returns None."""
    body_limit: int = MAX_SMALL_BODY
    """Bytes."""


ROUTES: Final = (
    Route("GET", "/v1/stats", StateVerbs.stats),
    Route("GET", "/v1/config", ConfigVerbs.config),
    Route("PUT", "/v1/config", ConfigVerbs.replace_config),
    Route("POST", "/v1/config/reload", ConfigVerbs.reload_config, if_none=_NO_FILE),
    Route("GET", "/v1/jobs", JobVerbs.jobs),
    Route("POST", "/v1/jobs", JobVerbs.start_job, 201, body_limit=MAX_JOB_BODY),
    Route("POST", "/v1/packs", JobVerbs.start_pack, 201),
    Route("GET", "/v1/jobs/{id}", JobVerbs.job, if_none=_NO_SUCH_JOB),
    Route("DELETE", "/v1/jobs/{id}", JobVerbs.cancel_job, if_none=_NO_SUCH_JOB),
    Route("GET", "/v1/jobs/{id}/failures", JobVerbs.job_failures, if_none=_NO_SUCH_JOB),
    Route("GET", "/v1/cache", CacheVerbs.list_cached),
    Route("DELETE", "/v1/cache", CacheVerbs.purge),
    Route("GET", "/v1/pins", PinVerbs.pins),
    Route("POST", "/v1/pins", PinVerbs.pin, 201),
    Route("DELETE", "/v1/pins", PinVerbs.unpin, if_none=_NO_SUCH_PIN),
    Route("GET", "/v1/plans", PlanVerbs.plans),
    Route("PUT", "/v1/plans", PlanVerbs.send_plan, body_limit=MAX_PLAN_BODY),
    Route("GET", "/v1/plans/{id}", PlanVerbs.plan, if_none=_NO_SUCH_PLAN),
    Route("DELETE", "/v1/plans/{id}", PlanVerbs.cancel_plan, if_none=_NO_SUCH_PLAN),
    Route("GET", "/v1/datasets", DataSetVerbs.data_sets),
    Route("GET", "/v1/advice", DataSetVerbs.advice),
    Route("GET", "/v1/explain", CacheVerbs.explain),
    Route("GET", "/v1/recordings", RecordingVerbs.recordings),
    Route("GET", _RECORDING, RecordingVerbs.recording_part, if_none=_NO_SUCH_RECORDING),
    Route("PUT", _RECORDING, RecordingVerbs.store_recording, body_limit=MAX_UPLOAD),
    Route("DELETE", _RECORDING, RecordingVerbs.remove_recording, if_none=_NO_SUCH_RECORDING),
    Route("POST", f"{_RECORDING}/save", RecordingVerbs.save_recording, if_none=_NOTHING_TO_SAVE),
    Route("POST", f"{_RECORDING}/replay", JobVerbs.replay_recording, 201, if_none=_NO_SUCH_RECORDING),
    Route("GET", "/v1/writes", WriteVerbs.pending_writes, if_none=_NO_JOURNAL),
    Route("GET", "/v1/writes/{id}", WriteVerbs.pending_write, if_none=_NO_SUCH_WRITE),
    Route("GET", "/v1/writes/{id}/content", WriteVerbs.pending_content, if_none=_NO_SUCH_WRITE),
    Route("POST", "/v1/writes/{id}/retry", WriteVerbs.retry_write, if_none=_NO_SUCH_WRITE),
    Route("DELETE", "/v1/writes/{id}", WriteVerbs.discard_write, if_none=_NO_SUCH_WRITE_OF_IT),
    Route("POST", "/v1/flush", WriteVerbs.flush_writes, if_none=_NO_JOURNAL),
    Route("PUT", "/v1/tiers/{tier}", ConfigVerbs.resize, if_none=_TIER_OFF),
)


def add_routes(router: web.UrlDispatcher, control: Control) -> None:
    """Adds all routes, answered by `control`."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def readyz(request: web.Request) -> web.Response:
        answer = await control.state.readiness()
        ready = answer.failing.keys() <= set(request.query.getall("exclude", ()))
        return web.json_response({**to_json(answer), "ready": ready}, status=200 if ready else 503)

    async def metrics(_request: web.Request) -> web.Response:
        text = await control.state.metrics()
        # Set as a header, because `content_type=` refuses the version that Prometheus wants beside it.
        return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    router.add_get("/healthz", healthz)
    router.add_get("/readyz", readyz)

    async def key_list(request: web.Request) -> web.Response:
        answer = await receive_list(request, control.jobs.extend_list)
        if answer is None:
            raise AdminRefusal(*_NO_SUCH_LIST)
        return web.json_response(to_json(answer), status=201)

    router.add_get("/metrics", metrics)
    router.add_post("/v1/lists", key_list)
    for route in ROUTES:
        router.add_route(route.method, route.path, _handler(route, control))


def _handler(route: Route, control: Control) -> Callable[[web.Request], Awaitable[web.Response]]:
    verb = control.method(route.verb)

    async def handle(request: web.Request) -> web.Response:
        arguments: dict[str, Any] = {}
        if route.verb is ConfigVerbs.replace_config:  # the one body that is not JSON
            read_query(request, ())
            arguments["toml"] = await read_toml(request)
        else:
            arguments = await read_arguments(request, route.verb, route.body_limit)
        if request.match_info.get("tier", "memory") not in get_args(TierName):
            raise AdminRefusal(*_NO_SUCH_TIER)
        answer = await verb(*request.match_info.values(), **arguments)
        if answer is None and route.if_none is not None:
            raise AdminRefusal(*route.if_none)
        if isinstance(answer, RecordingStored) and answer.problem:
            raise AdminRefusal(400, "bad_recording", f"The recording is refused: {answer.problem}.")
        if isinstance(answer, PlanSent) and answer.problem:
            raise AdminRefusal(400, "bad_plan", f"The plan is refused. {answer.problem}")
        if isinstance(answer, Flushed) and answer.problem:
            raise AdminRefusal(404, "no_such_bucket", answer.problem)
        if isinstance(answer, PendingRetried | PendingDiscarded) and answer.problem:
            raise AdminRefusal(409, "not_stuck", answer.problem)
        if isinstance(answer, PendingContent) and answer.problem:
            raise AdminRefusal(409, "damaged", answer.problem)
        if route.method != "GET" and (sentence := change_sentence(answer)) is not None:
            _log.info("admin port: %s", sentence)
        # Redacted once more: the verb covers the secrets of a configuration, this covers what it forgot.
        document = redact(answer) if route.verb is ConfigVerbs.config else to_json(answer)
        headers = {"Location": f"/v1/jobs/{answer.id}"} if route.status == 201 and isinstance(answer, Job) else None
        return web.json_response(document, status=route.status, headers=headers)

    return handle
