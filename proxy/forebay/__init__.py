"""Forebay: a caching proxy for object storage that runs beside the compute.

The folders are rooms, and imports go downward only (held by import-linter, see pyproject.toml):

    main, serve         the command line of the proxy
    workers             several processes of one node: supervisor, node control
    server              composition, listeners, fast path, admin port, telemetry, RPC
    jobs                warm-up
    request             the way of a request: admission, authentication, reading, forms
    write               writing: forwarding, invalidation, digests, multipart
    metadata            which version of an object is current: resolver, heads, permissions, checksums
    fetch               one flight per block, from the origin to any number of readers
    peers               the other workers of the node: owners, frames, liveness
    storage | origin    memory and SSD tiers | the origin (side by side)
    policy              decisions as pure functions: rules, freshness, access, coalescing
    settings | protocol settings and their checks | what bytes mean: signatures, operations, conditions (sans-IO)
    core                names, ranges, heads, errors, events, fences (standard library only)
"""
