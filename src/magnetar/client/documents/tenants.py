"""Tenants and clusters as REST shows them. Unknown fields of a cluster are kept by the broker, hence an object."""

from __future__ import annotations

from typing import Any

import msgspec

ClusterData = dict[str, Any]


class TenantInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    adminRoles: list[str] | None = None
    allowedClusters: list[str] | None = None
