"""What can be seen of a running node: its log and its metrics.

Counting is adding to an int and logging below the level costs one comparison, so that any path may do both. Nothing
here decides anything, and nothing here trusts that somebody looks.
"""
