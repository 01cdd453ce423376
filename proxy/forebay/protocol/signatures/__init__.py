"""Signatures of requests: parsing the claim, verifying it, and signing requests to the origin."""
