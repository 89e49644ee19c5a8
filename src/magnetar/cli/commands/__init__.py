"""Commands of `magnetar`, one module for each noun. A command parses its arguments, makes its requests through a
session and prints the result; it contains no protocol code.
"""
