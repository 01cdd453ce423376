"""Jobs: work that no client waits for. Warm-up of prefixes and lists of keys, pins, fetching ahead of readers.

Plans, recordings and packing have folders of their own.
"""
