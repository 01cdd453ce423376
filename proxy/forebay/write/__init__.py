"""Writes: forwarded to the origin between two invalidations.

A ForwardRequest goes through LengthSpooler to ObjectWriter, which uses

    Invalidator      before it is sent, and before it is answered
    Forwarder        the body, verified and framed again
    TrackedWrite     digest, staged blocks, multipart registry
    AnswerRelay      the answer
"""
