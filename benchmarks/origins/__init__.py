"""Origins, far away or near: processes that count what they send."""
