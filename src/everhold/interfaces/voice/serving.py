"""Make the options of a gateway from settings, and check them before anything listens."""

from everhold.interfaces.voice.addresses import (
    DEFAULT_BIND,
    parse_bind,
    parse_publish,
    require_distinct,
    require_protection,
)
from everhold.interfaces.voice.gateway import GatewayOptions
from everhold.interfaces.voice.keys import load_keys
from everhold.settings_sections import Voice


def make_options(voice: Voice) -> GatewayOptions:
    """Return the options of the settings. Raise InvalidSettings if one is wrong, or if an address needs protection."""
    binds = [parse_bind(text) for text in voice.bind or (DEFAULT_BIND,)]
    publish = parse_publish(voice.publish, binds)
    keys = None if voice.curve_keys is None else load_keys(voice.curve_keys)
    token = None if voice.token is None else voice.token.get_secret_value()
    require_distinct(binds)
    require_protection(binds, publish, token=bool(token), keys=keys is not None)
    return GatewayOptions(
        binds,
        publish,
        keys=keys,
        token=token or None,
        workers=voice.workers,
        max_bytes=voice.max_bytes,
        max_waiting=voice.max_waiting,
    )
