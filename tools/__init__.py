"""Generators for developers: reference pages, the word table of completion, and the blocking admin client.

They read the product's own tables, commands and docstrings, so that nothing is written twice. Tests in `tests/tools`
compare their results with the files in the repository; `make sync` writes the files. Nothing of this is in the wheel.
"""
