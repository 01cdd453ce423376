"""Write-back: writes that are acknowledged once the journal has them, and carried out at the origin afterwards.

acceptance ──> journal ──> pending objects, in every worker ──> acknowledged
                  └──────> drainer ──> origin, in the order of forebay.policy.drain_order ──> settled

    write_back                        one worker's write-back: makes its parts, and has the calls of requests
    accept/                           writes and uploads into the journal; uploads that go on at the origin
    pending/                          the acknowledged writes that the origin lacks, as readers see them
    drain/                            the writes at the origin, each in its turn
    settlement                        after that: cached, settled in the journal, forgotten in every worker
    drain_duty                        the one worker of the node that drains and settles
    record_exchange, upload_endings   the messages between workers: records, and which end of an upload counts
    write_barriers, node_flush        waiting until the origin has what is pending
    journal_loader, journal_watch     the journal at a start, and while the worker runs
    journal_check, journal_transfer   a journal without a server
    node_backlog                      the pending writes of all workers, for operators
    write_back_context, acceptance_parts, drain_parts   the parts of write_back, in groups
"""
