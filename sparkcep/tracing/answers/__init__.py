"""Answers: explanations of a trace as text, and as records."""
