"""The row pattern: nodes, parser, and the plan that splits conditions and measures."""
