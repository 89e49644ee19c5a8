"""The command line: one file per noun; answers on standard output, everything said to people on standard error.

It refuses to know how a broker works: a command gathers what the user asked for, loads the room that does it, and turns
that room's errors into a sentence and an exit code. Heavy imports stay inside commands; nobody imports this room.
"""
