"""Small records with versions: who owns what, which ledgers a topic has, which policies hold.

`store.py` is the contract; the engines keep it; `cache`, `lock` and `election` stand on the contract alone; `paths.py`
is the only place that builds paths. It refuses to hold messages, and it trusts nobody to be alone: every change is a
compare-and-set.
"""
