"""Signatures of requests: what a request claims, how it is verified, how requests to the origin are signed."""
