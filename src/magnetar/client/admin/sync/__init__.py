"""The admin client that blocks: the files of `aio` without the waiting words, made by `make sync`. Change those.

It has no loop and no thread, so it works wherever Python runs, also in a forked worker. It refuses what `aio` refuses
and trusts what `aio` trusts.
"""
