"""Forebay: a caching proxy for object storage that runs beside the compute.

The folders are floors, and imports go downward only (held by import-linter, see pyproject.toml):

    shell      command line, composition, listeners, admin port, telemetry, demo
    story      the way of a request in named steps: gateway, reading, writing, warming
    flights    one fetch a block, whoever asks: registry, fetcher, fences
    stores     where bytes are: memory and SSD tiers | the origin (side by side)
    decisions  what to do, as pure functions: rules, freshness, access, planning
    protocol   what the bytes on the wire mean: signatures, operations, conditions (sans-IO)
    words      names, ranges, units, errors, settings (standard library only)
"""
