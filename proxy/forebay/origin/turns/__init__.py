"""Turns at the origin: the order of requests, and the share of the event loop that their bodies have."""
