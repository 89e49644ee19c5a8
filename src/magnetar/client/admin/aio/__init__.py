"""The admin client that awaits: `exchange` carries requests, the other files are one resource each.

Nothing here decides what an answer means (that is `error_codes`) or keeps anything but open connections. `sync` is made
from these files: they use nothing that has no blocking twin, and trust the server with nothing but its status.
"""
