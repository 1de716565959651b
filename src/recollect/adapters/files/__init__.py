"""Blobs in a folder, or anywhere else that fsspec reaches."""

from recollect.adapters.files.blobs import FileBlobs

__all__ = ["FileBlobs"]
