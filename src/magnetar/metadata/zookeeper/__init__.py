"""The metadata store on ZooKeeper: our own client, because no library for asyncio knows recursive watches.

`jute` and `messages` are the bytes, `session` decides, `client` owns sockets and timers, `store` implements the
contract. It needs ZooKeeper 3.6 or newer, and shares a server with other applications by a path at the end of its URL.
"""
