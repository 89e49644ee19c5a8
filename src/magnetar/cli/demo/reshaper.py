"""Splits and merges the demo's scalable topic under traffic, through the public REST interface.

It splits the widest segment and merges the narrowest neighbours. After each change it asks the broker for the layout,
so the displayed tree is always the layout that the broker reported.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.cli.scalable.tree import hashes, layout_of, plan, tree
from magnetar.layout.layout import Layout
from magnetar.layout.segment import Segment

if TYPE_CHECKING:
    from magnetar.client.admin.aio.admin import Admin


class Reshaper:
    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin = admin
        self._topic = topic

    async def layout(self) -> Layout:
        return layout_of(await self._admin.scalable.metadata(self._topic))

    async def split(self) -> str:
        """Splits a segment and returns a description."""
        return await self._reshape(1)

    async def merge(self) -> str:
        return await self._reshape(-1)

    async def _reshape(self, more: int) -> str:
        layout = await self.layout()
        step = plan(layout, len(layout.active) + more)[0]
        began = asyncio.get_running_loop().time()
        if step.is_split:
            await self._admin.scalable.split(self._topic, step.parents[0])
        else:
            await self._admin.scalable.merge(self._topic, step.parents)
        took_ms = (asyncio.get_running_loop().time() - began) * 1000
        became = " and ".join(f"#{id}" for id in step.children)
        parents = " and ".join(f"#{id}" for id in step.parents)
        return f"{'split' if step.is_split else 'merged'} {parents} into {became}, {took_ms:.0f} ms"


def branches(layout: Layout) -> list[tuple[str, bool]]:
    """The lines of the segment tree; the flag marks active segments. A merged segment appears under its first parent;
    its other parents point to it.
    """
    return [
        (f"{before}#{one.id} {hashes(one.range)}{_merged(layout, one)}", one.is_active) for before, one in tree(layout)
    ]


def _merged(layout: Layout, segment: Segment) -> str:
    return "".join(f" ⤴ #{id}" for id in segment.children if layout.segment(id).parents[0] != segment.id)
