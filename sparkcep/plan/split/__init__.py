"""Splits expressions between Spark and the engine.

Conditions and measures become input columns, bits of rows, small trees over several rows, and the leaves of measures.
"""
