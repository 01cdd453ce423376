"""State paths: where a worker keeps state that outlives it. They are beside the state of the node or the SSD tier, and
named by the fingerprint of the configured origins, so that the state of others is not read.
"""

from pathlib import Path

from forebay.settings.model import Settings
from forebay.storage.cache_origin import all_ids, origin_fingerprint
from forebay.storage.run_record import NodeRun


def job_directory(settings: Settings) -> Path | None:
    """Returns the directory of warm-up jobs, with the state of the node; None: there is no state directory."""
    return _of_origins(settings, "jobs")


def recording_directory(settings: Settings) -> Path | None:
    """Returns the directory of recordings, in the state directory: they outlive the SSD tier, which may lose
    anything."""
    return _of_origins(settings, "recordings")


def _of_origins(settings: Settings, kind: str) -> Path | None:
    state_dir = settings.server.state_dir
    return Path(state_dir) / f"{kind}-{origin_fingerprint(all_ids(settings))}" if state_dir is not None else None


def pin_path(settings: Settings) -> Path | None:
    """Returns the file of pins, with the state of the node, else beside the SSD tier; None: there is neither."""
    directory = settings.server.state_dir or (settings.ssd.path if settings.ssd is not None else None)
    return Path(directory) / f"pins-{origin_fingerprint(all_ids(settings))}.json" if directory is not None else None


def snapshot_directory(settings: Settings) -> Path | None:
    """Returns the directory of snapshots of namespaces: beside the SSD tier, else with the state of the node."""
    directory = settings.ssd.path if settings.ssd is not None else settings.server.state_dir
    return Path(directory) / "listings" if directory is not None else None


def plan_directory(settings: Settings, run: NodeRun | None) -> Path | None:
    """Returns the directory of plans, beside the run record: one for each origin and address, so that two Forebays on a
    machine run each their own. None: there is no state directory."""
    if run is None or not run.records:
        return None
    address = settings.server.listen
    fingerprint = origin_fingerprint(f"{all_ids(settings)} {address.host}:{address.port}")
    return Path(run.records[0]).parent / f"plans-{fingerprint}"
