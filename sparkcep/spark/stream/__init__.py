"""A streaming query in Spark. A clause over a stream goes in; checks of the query, of its checkpoint and the work of a micro-batch
come out."""
