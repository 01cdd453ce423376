"""The change log: the log messages about changes that the admin port, or a reload, has made to a running Forebay."""

from forebay.core.recording_info import RecordingInfo
from forebay.core.units import format_size
from forebay.server.admin.schema.admin_schema import ConfigChanged, Job, Purged, Resized
from forebay.server.admin.schema.pending_schema import PendingDiscarded, PendingRetried
from forebay.server.admin.schema.pin_schema import PinRemoved, PinView
from forebay.server.admin.schema.recording_schema import RecordingRemoved, RecordingStored


def change_sentence(answer: object) -> str | None:
    """A sentence about a verb's answer; None for a verb that changes nothing."""
    match answer:
        case ConfigChanged(changed, needs_restart, warnings):
            parts = [f"changed: {', '.join(changed)}"] if changed else ["nothing has changed"]
            parts += [f"from the next start on: {', '.join(needs_restart)}"] if needs_restart else []
            parts += warnings
            return f"the configuration was read again; {'; '.join(parts)}"
        case Purged(objects, size):
            return f"{_counted(objects)} purged from the cache, {format_size(size)}"
        case Resized(tier, before, after, warning):
            resized = f"the {tier} tier was resized from {format_size(before)} to {format_size(after)}"
            return f"{resized}; {warning}" if warning is not None else resized
        case RecordingStored(RecordingInfo(bucket=bucket, name=name)):
            return f"the recording {name} of {bucket} was saved"
        case RecordingRemoved(RecordingInfo(bucket=bucket, name=name)):
            return f"the recording {name} of {bucket} was removed"
        case PendingRetried(write):
            return f"the write {write.id} of {write.bucket}/{write.key} is tried again"
        case PendingDiscarded(write):
            discarded = f"the write {write.id} of {write.bucket}/{write.key}, {format_size(write.size)}"
            return f"{discarded}, was discarded: {write.reason}"
        case PinView(bucket=bucket, prefix=prefix):
            return f"s3://{bucket}/{prefix} was pinned"
        case PinRemoved(PinView(bucket=bucket, prefix=prefix)):
            return f"s3://{bucket}/{prefix} was unpinned"
        case Job(id=number, state=state, action=action):
            return f"{'warm-up' if action == 'warm' else action} job {number} is {state}"
        case _:
            return None


def _counted(objects: int) -> str:
    return "1 object was" if objects == 1 else f"{objects} objects were"
