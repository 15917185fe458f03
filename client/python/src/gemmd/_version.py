"""The version of the installed distribution."""

from importlib import metadata

try:
    __version__ = metadata.version("gemmd-client")
except metadata.PackageNotFoundError:  # Imported from a checkout or an archive.
    __version__ = "unknown"
