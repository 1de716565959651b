"""Pictures of charts, rendered by vl-convert without a network or a browser."""

from everhold.adapters.vl_convert.renderer import VlConvertRenderer

__all__ = ["VlConvertRenderer"]
