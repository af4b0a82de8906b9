"""Pictures: of matches in their series."""
