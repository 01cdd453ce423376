"""Writes: forwarded to the origin between two invalidations.

ForwardRequest ─> LengthSpooler ─> ObjectWriter ─┬─> Invalidator      before it is sent, and before it is answered
                                                 ├─> Forwarder        the body, verified and framed again
                                                 ├─> TrackedWrite     digest, staged blocks, multipart registry
                                                 └─> AnswerRelay      the answer
"""
