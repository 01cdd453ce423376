"""Turns at the origin: who may send a request next, and how much of the event loop its body has."""
