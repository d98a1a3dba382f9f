"""The public artefact: a release answers queries for ever, and is a file."""

from sfumato.release.release import Count, Release, from_content, load

__all__ = ["Count", "Release", "from_content", "load"]
