"""Explains the stored rows of a key of a stream: which match is open, which rows wait, and for what."""
