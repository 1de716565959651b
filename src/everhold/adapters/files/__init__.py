"""Blobs in a folder, or anywhere else that fsspec reaches."""

from everhold.adapters.files.blobs import FileBlobs, check_place

__all__ = ["FileBlobs", "check_place"]
