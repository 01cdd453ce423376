"""The figures of docs/packs.md: small files beside the members of a pack."""
