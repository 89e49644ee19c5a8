"""Small records with versions: owners of bundles, ledgers of topics, policies.

`store.py` is the contract and the engines implement it. `cache`, `lock` and `election` depend on the contract alone.
`paths.py` is the only module that builds paths. The store refuses to hold messages. It assumes concurrent writers:
every change is a compare-and-set.
"""
