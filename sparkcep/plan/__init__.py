"""Query planner of the clause: turns a parsed clause into a ``Plan``, frozen records that say who computes what, with one JSON
form.

``build`` calls the packages below, and all of them share the records of this package.
"""
