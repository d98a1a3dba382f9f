"""The public artefact: a release answers queries for ever, with error bars and its guarantee, and is a file."""

from sfumato.release.content import from_content, load
from sfumato.release.release import Count, Release

__all__ = ["Count", "Release", "from_content", "load"]
