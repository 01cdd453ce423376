"""Reads of objects at the origin: sent, judged by the head of the response, repeated and hedged."""
