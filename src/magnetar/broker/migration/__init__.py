"""Migration of plain topics to scalable ones in place: the part of the owner.

The controller decides each step (`scalable/machines`); these modules act on plain topics.
"""
