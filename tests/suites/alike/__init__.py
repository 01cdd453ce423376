"""A suite of our own: many odd requests, each of which has to be answered with Forebay as it is without.

The groups are those of the suites that servers of S3 are usually tried with, Ceph's s3-tests above all
(https://github.com/ceph/s3-tests): bent headers and framing, ranges, conditions, names, copies, listings, multipart
uploads, links and forms, versions, locks, configurations of buckets, users beside the owner. What is asked and how it
is compared is ours. A case is one request: the script that it is in, and its place there. Where they differ on purpose,
`KNOWN` says why.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suites.alike import (
    access,
    bucket_configurations,
    conditional_writes,
    copies,
    form_uploads,
    framing,
    headers,
    listings,
    multipart_assembly,
    object_locks,
    objects,
    presigned_urls,
    uploads,
    version_history,
    versions,
)
from suites.alike.cases import CASES
from suites.alike.known_differences import KNOWN
from suites.alike.recording_client import RecordingClient
from suites.commands import HOME
from suites.endpoints import ACCESS_KEY, SECRET_KEY, USERS, SuiteEndpoint
from suites.suite import Suite

_UNJUDGED: Final = (
    listings,
    uploads,
    versions,
    conditional_writes,
    version_history,
    copies,
    multipart_assembly,
    bucket_configurations,
    object_locks,
)
"""What moto can be asked: it takes any signature, header, date and digest."""
_ALL: Final = (headers, framing, objects, presigned_urls, *_UNJUDGED)


def _suite(name: str, origin: str, modules: tuple[object, ...]) -> Suite:
    user = next(iter(USERS.items())) if origin == "swift-acl" else (ACCESS_KEY, SECRET_KEY)
    groups = [str(getattr(module, "__name__", "")).rpartition(".")[2] for module in modules]

    def run(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
        del place
        found: dict[str, str] = {}
        for script, case in CASES.items():
            if script.partition(".")[0] not in groups:
                continue
            asking = RecordingClient(ground.port, *user)
            with asking.fresh(script):
                case(asking)
            for number, told in enumerate(asking.transcript):
                asked, _, _ = told.partition("\n")
                line = " ".join(asked.split()[:2])
                # An answer of 5xx, or none, is nothing that Forebay could lose.
                is_answer = asked.split()[2][0] in "1234"
                found[f"{script} {number} {line[:80]}"] = told if is_answer else "failed"
        (directory / "answers").write_text("\n\n".join(f"=== {name}\n{told}" for name, told in found.items()))
        return found

    source = "of our own, `tests/suites/alike`, after the groups of Ceph's s3-tests"
    return Suite(name, "alike", source, (origin,), lambda: HOME, run, KNOWN)


SUITES: Final = (
    _suite("alike", "swift", _ALL),
    _suite("alike-acl", "swift-acl", (access,)),
    _suite("alike-moto", "moto", (*_UNJUDGED, form_uploads)),
)
