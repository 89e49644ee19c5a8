"""The public client: producers, consumers, readers and table views over asyncio, blocking faces (`sync`), the
typed admin client (`admin/`), and `documents/`, the bodies of REST calls that it shares with brokers.

Users come in through `magnetar` and `magnetar.aio`. It refuses to know anything of the broker: it stands on base,
layout, wire, runtime and observe alone, and trusts nothing a broker sends before `wire` has read it.
"""
