"""Object metadata: the current version, permissions and checksums of objects, without their bytes."""
