"""The packs that the rules name: their indexes, their members, and listings that include them."""
