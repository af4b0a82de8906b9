"""A slow, obvious reading of MATCH_RECOGNIZE over Python lists; imports nothing from sparkcep."""
