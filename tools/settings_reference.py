"""The reference page of the settings, docs/CONFIGURATION.md, rendered from the table of keys.

`make sync` writes the page and a test compares it. Edit the table, not the page.
"""

from __future__ import annotations

from magnetar.policy.config_key import Key, Value
from magnetar.policy.table import SECTIONS

_HEAD = """# Configuration

Keys of `broker.conf` and `standalone.conf` (Java properties: `key=value`), handed over with
`magnetar standalone --conf FILE`. Defaults are those of Pulsar's standalone, except `bindAddress`. A value of the wrong
form is refused at start, with the key and the expected form; a key that is not here is kept, and warned of once.

*Dynamic* keys can be changed while the broker runs (`POST /admin/v2/brokers/configuration/{key}/{value}`). Where a
namespace or a topic has a policy of its own it wins: topic over namespace over dynamic over command line over file
over default.
*Not yet* means that the key is understood and does nothing so far.
*Refused* means that the key asks for a protection that this version does not have: the broker does not start with
another value than the default. Values of Pulsar's own files are accepted. A key that is not here and whose name asks
for a protection (authentication, TLS, tokens, passwords, rates) is refused too, unless its value is empty, `false`,
`none` or 0.
"""


def page() -> str:
    parts = [_HEAD]
    for title, keys in SECTIONS.items():
        rows = "".join(_row(key) for key in keys)
        parts.append(
            f"\n## {title}\n\n| key | form | default | meaning | overridden by |\n|---|---|---|---|---|\n{rows}"
        )
    return "".join(parts)


def _row(key: Key) -> str:
    meaning = key.doc if key.honoured else f"*{'Refused' if key.protects else 'Not yet'}.* {key.doc}"
    if key.protects and not key.honoured and key.harmless:
        meaning += f" Accepted too: {', '.join(f'`{one}`' for one in key.harmless)}."
    if key.dynamic and key.honoured:
        meaning += " *Dynamic.*"
    over = ", ".join(f"`{field}`" for field in dict.fromkeys((key.namespace, key.topic)) if field)
    return f"| `{key.name}` | {key.kind.name} | {_shown(key.default)} | {meaning} | {over} |\n"


def _shown(value: Value) -> str:
    if value is None or value in ("", []):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(value)}`" if isinstance(value, list) else f"`{value}`"
