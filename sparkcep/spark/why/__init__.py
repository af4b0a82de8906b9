"""Asks Spark for the rows that :mod:`sparkcep.tracing` explains."""
