"""The composition of a worker, room by room: the parts of each, made from those of the rooms below."""
