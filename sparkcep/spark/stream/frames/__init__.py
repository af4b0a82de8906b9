"""A clause over a stream without the JVM extension. DataFrames go in; a program of Spark's public stateful operators comes out."""
