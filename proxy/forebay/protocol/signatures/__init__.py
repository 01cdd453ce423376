"""Signatures of requests, S3's and OSS's: parsing the claim, verifying it, and signing requests to the origin."""
