"""The process that draws one picture: a specification as JSON on standard input, the picture on standard output.

    python -m everhold.adapters.vl_convert.child svg|png SCALE

JavaScript that runs out of memory ends its process. So it never runs in the process of the caller.
"""

import importlib
import json
import resource
import sys

_VEGA_LITE = "5.20"
_CPU_SECONDS = 60


def draw_picture(kind: str, scale: float, text: str) -> bytes:
    """Return a picture. No address and no file is read: the list of addresses that may be read is empty."""
    library = importlib.import_module("vl_convert")
    specification = json.loads(text)
    if kind == "svg":
        svg = library.vegalite_to_svg(specification, vl_version=_VEGA_LITE, allowed_base_urls=[])
        return str(svg).encode()
    png = library.vegalite_to_png(specification, vl_version=_VEGA_LITE, allowed_base_urls=[], scale=scale)
    return bytes(png)


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    picture = draw_picture(sys.argv[1], float(sys.argv[2]), sys.stdin.buffer.read().decode())
    sys.stdout.buffer.write(picture)


if __name__ == "__main__":
    main()
