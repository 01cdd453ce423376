"""The way of a request: the gateway, the one admission, and the module that answers each kind of request after it.

Reads of objects, listings, other reads, writes, form uploads, batches, and Forebay's own resources below `.forebay/`.
OSS and CORS are front ends of it.
"""
