"""Being written: the routes of this resource arrive with the next step."""

from __future__ import annotations

from magnetar.admin.route import Route

ROUTES: list[Route] = []
