"""What a release carries besides the code: the bill of materials, made from the lock files.

It reads files of the repository and the metadata of installed packages. Nothing of it is in the wheel.
"""
