"""HTML pages about queries that ran: their plan, their metrics and the state of their keys."""
