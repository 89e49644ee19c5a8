"""The log and the metrics of a running node.

Counting adds to an int, and a log call below the level costs one comparison, so any code path may use both. This
package makes no decisions, and no code relies on its output being read.
"""
