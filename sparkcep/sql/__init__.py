"""Statements. A statement goes in; the statement that Spark runs comes out, or its explanation."""
