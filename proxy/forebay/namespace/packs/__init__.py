"""The packs that the rules name: their indexes, what they have in them, and listings with it."""
