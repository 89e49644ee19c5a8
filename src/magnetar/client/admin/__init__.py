"""The admin client: REST calls as typed methods, one file per resource.

`aio` is written by hand; `tools/async_to_sync.py` generates `sync`, and a test compares the two. Plain functions that
both share interpret answers (`errors`, `messages`, `policy`). The client trusts no server: unknown fields are
ignored, an answer that cannot be parsed is `Corrupt`, and a request that may have changed something is never sent
twice.
"""
