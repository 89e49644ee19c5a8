"""What a release carries besides the code: the bill of materials, from the lock files, and the site of the documents.

It reads files of the repository and the metadata of installed packages. Nothing of it is in the wheel.
"""
