"""The only access to time, randomness, tasks, threads and files.

`runtime.py` is the contract for all of them, `files.py` the contract for files. `runtime/system_runtime.py` and
`disk.py` implement them on this machine; the simulator has its own implementations. This package knows no topics. All
other code relies on it as the only access, which `tests/tidy` enforces.
"""
