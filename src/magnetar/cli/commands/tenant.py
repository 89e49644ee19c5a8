"""`magnetar tenant`: list, create, show, delete. A tenant has namespaces and the roles that may administer them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from magnetar.base.errors import AlreadyExists, NotFound
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, IfExists, IfNotExists, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell

Names = Annotated[list[str] | None, Parameter(negative="")]


def list_(*, common: Common = COMMON) -> None:
    """List the tenants.

    Examples
    --------
    $ magnetar tenant list
    """
    with common.session() as session:
        names = session.admin.tenants.names()
        session.show(session.document, TableData(("TENANT",), [(name,) for name in names]))


def create(
    tenant: str,
    /,
    *,
    cluster: Names = None,
    admin_role: Names = None,
    if_not_exists: IfNotExists = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a tenant.

    Parameters
    ----------
    tenant
        Tenant name.
    cluster
        Cluster that the tenant may use (repeatable). Default: all clusters.
    admin_role
        Role that may administer the tenant (repeatable).

    Examples
    --------
    $ magnetar tenant create acme
    """
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        session.about(tenant=tenant)
        admin = session.admin.tenants
        session.do(f"create {tenant}", lambda: admin.create(tenant, allowed_clusters=cluster, admin_roles=admin_role))


def show(tenant: str, /, *, common: Common = COMMON) -> None:
    """Show the admin roles of a tenant and the clusters that it may use.

    Parameters
    ----------
    tenant
        Tenant name.

    Examples
    --------
    $ magnetar tenant show public
    """
    with common.session() as session:
        session.about(tenant=tenant)
        info = session.admin.tenants.get(tenant)
        facts: dict[str, Cell] = {
            "tenant": tenant,
            "clusters": ", ".join(info.allowedClusters or []) or None,
            "admin roles": ", ".join(info.adminRoles or []) or None,
        }
        session.show(session.document, KeyValues(facts))


def delete(
    tenant: str,
    /,
    *,
    force: Annotated[bool, flag("Delete it with all its namespaces and topics, if the brokers allow this.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a tenant.

    Parameters
    ----------
    tenant
        Tenant name.

    Examples
    --------
    $ magnetar tenant delete acme --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        session.about(tenant=tenant)
        session.admin.tenants.get(tenant)  # reports a missing tenant in a dry run too
        session.confirm(tenant, f"permanently deletes {tenant}{' and all its namespaces and topics' if force else ''}")
        session.do(f"delete {tenant}", lambda: session.admin.tenants.delete(tenant, force=force))


VERBS = {"list": list_, "create": create, "show": show, "delete": delete}
