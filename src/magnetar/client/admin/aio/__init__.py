"""The asyncio admin client: `transport` carries requests, each other file is one resource.

These files do not interpret errors (`errors` does) and store nothing but open connections. `sync` is generated from
them, so they use nothing without a blocking equivalent. They trust only the status of a server's answer.
"""
