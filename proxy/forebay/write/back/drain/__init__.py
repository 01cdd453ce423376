"""The drain: accepted writes are carried out at the origin, in their order."""
