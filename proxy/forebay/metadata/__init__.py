"""Object metadata: versions, permissions and checksums of objects, and the lookups at the origin that bring them."""
