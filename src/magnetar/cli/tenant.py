"""`magnetar tenant`: list, create, show, delete. A tenant holds namespaces and says who may administer them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from magnetar.base.errors import AlreadyExists, NotFound
from magnetar.cli.cells import Cell
from magnetar.cli.options import CHANGE, COMMON, DESTRUCTION, Change, Common, Destruction, IfExists, IfNotExists, flag
from magnetar.cli.output import Facts, Sheet

Names = Annotated[list[str] | None, Parameter(negative="")]


def list_(*, common: Common = COMMON) -> None:
    """The tenants.

    Examples
    --------
    $ magnetar tenant list
    """
    with common.session() as session:
        names = session.admin.tenants.names()
        session.show(session.document, Sheet(("TENANT",), [(name,) for name in names]))


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
        Its name.
    cluster
        A cluster it may use, once for each; without, all there are.
    admin_role
        Who may administer it, once for each.

    Examples
    --------
    $ magnetar tenant create acme
    """
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        session.about(tenant=tenant)
        admin = session.admin.tenants
        session.do(f"create {tenant}", lambda: admin.create(tenant, allowed_clusters=cluster, admin_roles=admin_role))


def show(tenant: str, /, *, common: Common = COMMON) -> None:
    """Who may administer a tenant, and which clusters it may use.

    Parameters
    ----------
    tenant
        Its name.

    Examples
    --------
    $ magnetar tenant show public
    """
    with common.session() as session:
        session.about(tenant=tenant)
        found = session.admin.tenants.get(tenant)
        facts: dict[str, Cell] = {
            "tenant": tenant,
            "clusters": ", ".join(found.allowedClusters or []) or None,
            "admin roles": ", ".join(found.adminRoles or []) or None,
        }
        session.show(session.document, Facts(facts))


def delete(
    tenant: str,
    /,
    *,
    force: Annotated[bool, flag("With all its namespaces and topics, where the brokers allow that.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a tenant.

    Parameters
    ----------
    tenant
        Its name.

    Examples
    --------
    $ magnetar tenant delete acme --yes
    """
    with common.session(change, unless=NotFound if if_exists else None) as session:
        session.about(tenant=tenant)
        session.admin.tenants.get(tenant)  # what is not there cannot be deleted, also in a dry run
        session.confirm(tenant, f"deletes {tenant}{' and everything in it' if force else ''} for good")
        session.do(f"delete {tenant}", lambda: session.admin.tenants.delete(tenant, force=force))


VERBS = {"list": list_, "create": create, "show": show, "delete": delete}
