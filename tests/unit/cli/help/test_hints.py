"""What a refusal was about, and what to run next."""

from __future__ import annotations

import pytest

from magnetar.base import errors
from magnetar.cli.help.hints import Hint, advise
from magnetar.cli.help.suggestions import Subject

ACME = Subject(tenant="acme")
SHOP = Subject(namespace="acme/shop")
ORDERS = Subject(topic="persistent://public/default/orders", subscription="bill")
FAR = Subject(topic="persistent://acme/shop/orders")


@pytest.mark.parametrize(
    ("subject", "error", "name", "run"),
    [
        (
            ACME,
            errors.NotFound("Tenant does not exist"),
            "acme",
            "magnetar tenant list, or magnetar tenant create acme",
        ),
        (
            SHOP,
            errors.NotFound("Tenant does not exist"),
            "acme",
            "magnetar tenant list, or magnetar tenant create acme",
        ),
        (
            SHOP,
            errors.NotFound("Namespace does not exist"),
            "acme/shop",
            "magnetar namespace list acme, or magnetar namespace create acme/shop",
        ),
        (
            FAR,
            errors.NotFound("Namespace not found"),
            "acme/shop",
            "magnetar namespace list acme, or magnetar namespace create acme/shop",
        ),
        (
            FAR,
            errors.TopicNotFound("Topic persistent://acme/shop/orders not found"),
            "",
            "magnetar topic list acme/shop, or magnetar topic create persistent://acme/shop/orders",
        ),
        (
            ORDERS,
            errors.SubscriptionNotFound("Subscription bill not found for topic persistent://public/default/orders"),
            "",
            "magnetar subscription list orders, or magnetar subscription create orders bill",
        ),
        (ACME, errors.AlreadyExists("Tenant already exist"), "acme", "magnetar tenant show acme"),
        (ORDERS, errors.AlreadyExists("This topic already exists"), "orders", "magnetar topic show orders"),
        (
            Subject(topic="persistent://public/default/a"),
            errors.AlreadyExists("This topic already exists"),
            "a",
            "magnetar topic show a",
        ),
        (
            ACME,
            errors.Conflict("The tenant still has active namespaces"),
            "acme",
            "magnetar namespace list acme, or the same command with --force to delete each namespace too",
        ),
        (
            SHOP,
            errors.NotEmpty("Cannot delete non empty namespace"),
            "acme/shop",
            "magnetar topic list acme/shop, or the same command with --force to delete each topic too",
        ),
        (ORDERS, errors.Conflict("Topic has active producers"), "orders", "magnetar topic show orders"),
        (ACME, errors.Refused("Clusters do not exist"), "", "magnetar api GET /admin/v2/clusters"),
        (ORDERS, errors.Conflict("try again"), "", ""),
        (ACME, errors.NotAuthorized("not for this tenant"), "", ""),
        (Subject(), errors.NotFound("Tenant does not exist"), "", ""),
    ],
)
def test_refusal_names_object_and_next_command(
    subject: Subject, error: errors.MagnetarError, name: str, run: str
) -> None:
    assert advise(subject, error) == Hint(name, run)


def test_name_that_shell_would_take_apart_is_quoted() -> None:
    assert advise(Subject(tenant="a b"), errors.NotFound("Tenant does not exist")).run.endswith("create 'a b'")


def test_hold_that_is_not_there_is_looked_for_among_holds() -> None:
    subject = Subject(topic="topic://public/default/x")
    error = errors.NotFound("Hold nix not found on topic topic://public/default/x")
    assert advise(subject, error) == Hint(run="magnetar hold list topic://public/default/x")
