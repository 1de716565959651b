"""The address of Chroma: `chroma:///folder` (relative), `chroma:////folder` (absolute), or `chroma://host:port`."""

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import unquote, urlsplit

from everhold.errors import InvalidSettings, format_value
from everhold.settings_sections import hide_password

_PORT = 8000


@dataclass(frozen=True)
class Address:
    """A folder that this process opens, or the address of a Chroma server."""

    folder: Path | None = None
    host: str = ""
    port: int = _PORT
    tls: bool = False
    main_collection: str | None = None
    """The collection of memories, if it must have exactly this name and be in the folder itself, not in a subfolder."""

    @property
    def url(self) -> str:
        if self.folder is not None:
            return f"chroma:///{self.folder}"
        return f"chroma{'+https' if self.tls else ''}://{self.host}:{self.port}"

    @property
    def digest(self) -> str:
        """A short hash that is different for each address."""
        return blake2b(self.url.encode(), digest_size=6).hexdigest()


def read_address(text: str) -> Address:
    """Parse the setting `vectors`. Raise InvalidSettings for other values than addresses of Chroma."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = 0
    address = hide_password(text)
    if parts.scheme not in ("chroma", "chroma+https") or port == 0:
        raise InvalidSettings(
            f"vectors is {format_value(address)}",
            value=address,
            remedy="use auto, chroma:///folder, chroma://host:port or chroma+https://…",
        )
    if parts.hostname:
        return Address(host=parts.hostname, port=port or _PORT, tls=parts.scheme == "chroma+https")
    folder = unquote(parts.path).removeprefix("/")
    if not folder or parts.scheme != "chroma":
        raise InvalidSettings(
            f"vectors is {format_value(address)}, which names neither a folder nor a host",
            value=address,
            remedy="use chroma:///folder",
        )
    return Address(folder=Path(folder).resolve())
