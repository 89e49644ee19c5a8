"""The only door to time, chance, tasks, threads and files.

`runtime.py` is the contract, `files.py` the contract for bytes on a disk; `runtime/system_runtime.py` and `disk.py`
keep them on this machine, the simulator brings others. Nothing here knows what a topic is; everything else trusts that
there is no second door (`tests/tidy`).
"""
