"""Bare loops without any code of Forebay: what the machine, Python and the disk can do at all."""
