"""The admin client: REST calls as typed methods, one file a resource.

`aio` is written by hand; `sync` is the same text without the waiting words, made from it by `async_to_sync` and held to
it by a test. What an answer means is decided in plain functions (`error_codes`, `admin/messages`, `policy`) that both
share. It trusts no server: unknown fields are ignored, an answer that cannot be read is `Corrupt`, and nothing that
might have changed something is ever sent twice.
"""
