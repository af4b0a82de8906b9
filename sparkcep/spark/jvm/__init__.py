"""The JVM extension: Java sources that are compiled at run time.

They rewrite statements in the JVM's parser, and plan queries with the clause's own operators.
"""
