"""Pages about queries that ran. A query goes in; its plan, its metrics and the state of its keys come out."""
