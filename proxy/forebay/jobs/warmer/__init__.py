"""The warm-up of single objects: what is cached of an object, and the fetching of the rest, here or at its owner."""
