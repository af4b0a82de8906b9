"""Enables the clause in sessions: adds the rewriter, the table function and the JVM extension to a session."""
