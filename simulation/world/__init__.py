"""What a world consists of, and the worlds themselves.

`config` draws a world from its seed, with `workload`, `scalable` and `variants`; these modules hold values only.
`cluster` runs it with real brokers and real clients. `staged_publishing` runs worlds of another kind.
"""
