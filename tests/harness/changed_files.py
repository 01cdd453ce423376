"""Which modules of Forebay change files, and how each is tried with kills and failing calls."""

from typing import Final

KILLED: Final = frozenset(
    {
        "jobs/state/job_store",
        "jobs/plans/plan_files",
        "jobs/plans/plan_store",
        "jobs/recordings/recording_files",
        "jobs/recordings/recording_names",
        "storage/journal/body_file",
        "storage/journal/journal",
        "storage/journal/journal_reclaim",
        "storage/journal/log_writer",
        "storage/journal/settled_numbers",
        "storage/journal/upload_notes",
        "storage/pin_file",
        "storage/private_directory",
        "storage/run_record",
        "storage/ssd/index/index",
        "storage/ssd/recovery",
        "storage/ssd/reference_bits",
        "storage/ssd/segment_appender",
        "storage/ssd/ssd_directory",
    }
)
"""By harness.state_program, at each of their calls."""
OPENING: Final = KILLED - {"storage/private_directory"}
"""Of these, also at their calls that open files."""
ELSEWHERE: Final = {
    "jobs/plans/plan_key_lists": "removes lists that no plan has used for a day: a list without a part of it is none",
    "storage/durable_files": "makes calls for others",
    "storage/file_sums": "makes calls for others",
    "storage/journal/journal_files": "makes calls for others; tests/scenarios/test_write_back_kills.py",
    "storage/ssd/index/index_rebuild": "tests/storage/ssd/index/test_index_rebuild.py: one that broke off begins again",
    "storage/ssd/index/index_repair": "tests/storage/ssd/index/test_index_repair.py",
    "storage/ssd/segments/segments": "tests/storage/ssd/test_recovery.py: files that a crash left behind are deleted",
}
"""In tests of their own, or not, for a reason."""
NOTHING_KEPT: Final = {
    "namespace/packs/index_file": "a file without a name, gone with its process",
    "namespace/snapshot_file": "a file without a name, gone with its process",
    "peers/ownership_claims": "the claims of one run: the next one begins a file of its own",
    "server/former_journals": "a note for a warning",
    "server/http/socket_writes": "a socket",
    "server/rpc/rpc_server": "the name of a socket",
    "server/self_checks": "a file to find out what the disk can do",
    "server/shared_memory/sealed_memory": "memory",
    "server/shared_memory/socket_file": "the name of a socket",
    "server/telemetry/log_file": "lines of logs",
    "storage/memory/shared_blocks": "memory",
    "storage/spool_directory": "the directory of spooled bodies, which is removed with its process",
    "storage/spooled_body": "a body on its way: its client sends it again",
    "workers/worker_process": "the directory of sockets",
    "write/back/journal_check": "what an operator exports, by a command that is given again",
}
"""What they write is not looked at by a later process."""
