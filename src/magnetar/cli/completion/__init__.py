"""Shell completion: scripts for each shell, the table of words, names from the broker and their cache. Completion
never fails loudly: without an answer it offers nothing.
"""
