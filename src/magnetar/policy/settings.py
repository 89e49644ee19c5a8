"""Settings in layers: the defaults of the table, the file, the command line, the dynamic overrides, the policies of the
namespace, the policies of the topic.

`get` searches from the top layer down, and `explain` returns the layer that decides. The caller passes the policies; an
unset field falls through to the next layer. A value of the wrong form is refused when it is loaded, with its key, value
and expected form, so that `get` never fails because of an invalid value. A value that requires a protection which this
version does not have is refused too (`Unprotected`), so that no operator relies on a missing protection. Unknown keys
are kept, with one warning each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from magnetar.base.errors import Misuse, NotBuilt, NotFound, Refused, Unprotected
from magnetar.base.properties import parse
from magnetar.base.secret import HIDDEN
from magnetar.observe import log as logs
from magnetar.policy.config_key import TEXT, Key, Value
from magnetar.policy.policies import Policies
from magnetar.policy.protection import is_secret, unmet_by_name
from magnetar.policy.table import ALIASES, KEYS

log = logs.get("policy")

Changed = Callable[[frozenset[str]], None]
DEFAULT_LAYER = "default"  # the table's own value: nothing was said anywhere


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """`layer` is the effective one; `said` lists every layer with a value, the strongest first."""

    key: str
    value: Value
    layer: str
    said: list[tuple[str, Value]]


class Settings:
    """`file` and `given` (the command line) contain text by key, as people write it."""

    def __init__(self, file: Mapping[str, str] | None = None, given: Mapping[str, str] | None = None) -> None:
        check_protection({**(file or {}), **(given or {})})
        self._layers: dict[str, dict[str, Value]] = {  # the strongest first
            "dynamic": {},
            "command line": _read("the command line", given or {}),
            "file": _read("the file", file or {}),
        }
        self.unknown: dict[str, str] = {
            key: text
            for layer in (file or {}, given or {})
            for key, text in layer.items()
            if key not in KEYS and key not in ALIASES
        }
        self._dynamic_text: dict[str, str] = {}
        self._heard: list[Changed] = []

    @classmethod
    def load(cls, path: str, given: Mapping[str, str] | None = None) -> Settings:
        """Loads a properties file. NotFound, Misuse: it cannot be read, with the reason. Unprotected: see
        `check_protection`."""
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise NotFound(f"the configuration file cannot be read: {error.strerror}", path=path) from error
        except UnicodeDecodeError as error:
            raise Misuse("the configuration file is not UTF-8 text", path=path, byte=error.start) from error
        return cls(parse(text), given)

    def get(self, key: str, namespace: Policies | None = None, topic: Mapping[str, Any] | None = None) -> Any:
        """`namespace` and `topic` are their policies. The table defines the type; `flag`, `number` and `text` return a
        typed value."""
        setting = _known(key)
        if topic is not None and setting.topic and (value := _dig(topic, setting.topic)) is not None:
            return value
        if namespace is not None and setting.namespace and (value := namespace.field(setting.namespace)) is not None:
            return value
        for layer in self._layers.values():
            if key in layer:
                return layer[key]
        return setting.default

    def flag(self, key: str, namespace: Policies | None = None, topic: Mapping[str, Any] | None = None) -> bool:
        value = self.get(key, namespace, topic)
        assert isinstance(value, bool), key
        return value

    def number(self, key: str, namespace: Policies | None = None, topic: Mapping[str, Any] | None = None) -> int:
        value = self.get(key, namespace, topic)
        assert isinstance(value, int), key
        return value

    def text(self, key: str, namespace: Policies | None = None, topic: Mapping[str, Any] | None = None) -> str:
        value = self.get(key, namespace, topic)
        assert isinstance(value, str), key
        return value

    def explain(
        self, key: str, namespace: Policies | None = None, topic: Mapping[str, Any] | None = None
    ) -> EffectiveSetting:
        setting = _known(key)
        layers: list[tuple[str, Value]] = []
        if topic is not None and setting.topic and (value := _dig(topic, setting.topic)) is not None:
            layers.append(("topic", value))
        if namespace is not None and setting.namespace and (value := namespace.field(setting.namespace)) is not None:
            layers.append(("namespace", value))
        layers += [(name, layer[key]) for name, layer in self._layers.items() if key in layer]
        layers.append((DEFAULT_LAYER, setting.default))
        return EffectiveSetting(key, layers[0][1], layers[0][0], layers)

    # The dynamic layer

    def dynamic_keys(self) -> list[str]:
        """The keys that the broker applies while it runs."""
        return [key.name for key in KEYS.values() if key.dynamic and key.honoured]

    def dynamic_values(self) -> dict[str, str]:
        """The dynamic values as written; secrets are hidden."""
        return {key: _visible(key, text) for key, text in self._dynamic_text.items()}

    def check_dynamic(self, key: str, text: str) -> None:
        """Refused: the key is not dynamic (with Pulsar's text). Misuse: the value has the wrong form. NotBuilt: it
        requires a protection, or nothing applies the key: not even its default is stored."""
        if key not in KEYS or not KEYS[key].dynamic:
            raise Refused("Can't update non-dynamic configuration", http_status=412)
        KEYS[key].read(text)
        if unmet := KEYS[key].unmet(text):
            raise NotBuilt(f"{key} requires {unmet}, which this version of Magnetar does not support")
        if not KEYS[key].honoured and not KEYS[key].protects:
            raise NotBuilt(f"{key}: this version of Magnetar does not apply this setting")

    def replace_dynamic(self, values: Mapping[str, str]) -> None:
        """Applies the values that are stored for the whole cluster. Values that this version cannot read are skipped
        and logged."""
        layer: dict[str, Value] = {}
        for key, text in values.items():
            try:
                self.check_dynamic(key, text)
            except (Misuse, Refused) as error:
                log.once("setting_ignored", key=key, value=_visible(key, text), why=error.what)
            else:
                layer[key] = KEYS[key].read(text)
        before, self._layers["dynamic"] = self._layers["dynamic"], layer
        self._dynamic_text = dict(values)
        changed = frozenset(key for key in before.keys() | layer.keys() if before.get(key) != layer.get(key))
        if changed:
            log.info("settings_changed", keys=", ".join(sorted(changed)))
            for heard in list(self._heard):
                heard(changed)

    def on_change(self, heard: Changed) -> Callable[[], None]:
        """Calls `heard` with the keys whose dynamic value changed; returns a function that ends this."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    def shown(self) -> dict[str, str]:
        """Every known key with its value as text, for people. Secrets are hidden. Values of unknown keys are hidden
        too, because they may be secrets."""
        values = {key: _visible(key, _shown(self.get(key))) for key in KEYS}
        return {**values, **{key: HIDDEN if text else "" for key, text in self.unknown.items()}}


def check_protection(texts: Mapping[str, str]) -> None:
    """Raises Unprotected if values require a protection that this version does not support; the error names all of
    them."""
    unmet_settings: list[str] = []
    kinds: dict[str, None] = {}
    for name, text in texts.items():
        key = KEYS.get(ALIASES.get(name, name))
        unmet = unmet_by_name(name, text) if key is None else key.unmet(text)
        if unmet:
            unmet_settings.append(f"{name}={_visible(name, text)}")
            kinds[unmet] = None
    if unmet_settings:
        raise Unprotected(
            f"the configuration requires {', '.join(kinds)}, which this version of Magnetar does not support",
            settings=", ".join(unmet_settings),
        )


def _read(where: str, texts: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for spelling, text in texts.items():
        name = ALIASES.get(spelling, spelling)
        if name != spelling and name in texts:
            continue
        key = KEYS.get(name)
        if key is None:
            near = get_close_matches(name, KEYS, 1)
            log.once("unknown_setting_ignored", key=name, where=where, **({"near": near[0]} if near else {}))
            continue
        value = key.read(text)
        if not key.honoured and value != key.default:
            log.once("setting_not_supported", key=name, value=_visible(name, text), where=where)
        values[name] = value
    return values


def _known(key: str) -> Key:
    setting = KEYS.get(key)
    if setting is None:
        raise Misuse("unknown setting", key=key)
    return setting


def _dig(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _visible(name: str, text: str) -> str:
    """The value for display; a secret that is set is hidden."""
    key = KEYS.get(name)
    harmless = not text or (key is not None and (key.kind is not TEXT or text == key.default))
    return text if harmless or not is_secret(name) else HIDDEN


def _shown(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return str(value)
