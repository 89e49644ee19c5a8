"""The public client: producers, consumers, readers and table views over asyncio, their blocking versions (`sync`), the
typed admin client (`admin/`), and `documents/`, the bodies of REST calls, which the client shares with brokers.

Users import `magnetar` and `magnetar.aio`. The client does not import broker code: it uses base, layout, wire, runtime
and observe only. It trusts no data from a broker before `wire` has parsed it.
"""
