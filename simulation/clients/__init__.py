"""Client processes of a world: producers, consumers and readers of every kind, over the product's real client.

Each process records in the history what it begins and how that ends. It judges nothing. `lifecycle` starts the
processes of a world, drains its subscriptions and stops them.
"""
