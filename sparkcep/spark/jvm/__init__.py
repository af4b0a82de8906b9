"""The JVM extension: Java sources that are compiled at run time. A query of Spark's goes in; a plan with the operators of the
clause comes out."""
