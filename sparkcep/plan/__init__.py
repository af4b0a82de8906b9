"""The plan of a clause. A tree goes in; ``Plan`` comes out: frozen records that say who computes what, with one form as JSON.

``build`` calls the packages below, and all of them share the records of this one.
"""
