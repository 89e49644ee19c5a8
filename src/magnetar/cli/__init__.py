"""The command line: one module per noun. Results go to standard output, everything else for people to standard error.

A command collects the arguments, calls the package that does the work, and turns its errors into a message and an exit
code. It contains no broker logic. Heavy imports stay inside commands. No other package imports this one.
"""
