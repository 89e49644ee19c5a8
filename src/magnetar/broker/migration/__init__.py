"""Migration of plain topics to scalable ones, in place: the owner's side. The controller decides each step
(`scalable/machines`); these modules act on plain topics.
"""
