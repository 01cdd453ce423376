"""Multipart uploads in progress: their parts, and how small parts are joined."""
