"""Packs read by the client library, with or without Forebay in front."""

from forebay_client.packs.pack_reader import PackReader

__all__ = ["PackReader"]
