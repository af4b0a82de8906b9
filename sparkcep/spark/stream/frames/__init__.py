"""Clauses over streams without the JVM extension: turns DataFrames into a program of Spark's public stateful operators."""
