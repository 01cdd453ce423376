"""Writes: forwarded to the origin between two invalidations, or acknowledged from the journal (`back`).

A ForwardRequest goes through LengthSpooler to ObjectWriter, which uses

    WriteBack        where a rule says `write = "back"`: may the journal acknowledge it?
    Invalidator      before it is sent, and before it is answered
    Forwarder        the body, verified and framed again
    TrackedWrite     digest, staged blocks, multipart registry
    AnswerRelay      the answer
"""
