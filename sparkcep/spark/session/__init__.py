"""Sessions that know the clause. A session goes in; it comes out with the rewriter, the table function and the JVM extension."""
