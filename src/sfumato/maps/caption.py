"""What is printed with every picture: title, guarantee, plain statement, and the public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sfumato.release import Release


@dataclass(frozen=True)
class Caption:
    """Words beside a picture.

    Attributes
    ----------
    title : str
        One line.
    view : str
        What is shown where, if that is not the whole release: fixed columns, a projection.
    guarantees : tuple of str
        The guarantee of each release in the picture.
    statement : str
        The promise in plain language.
    facts : tuple of (label, text)
        Kernel, records and method.
    warning : str
        Why the picture is not private; empty if it is.
    """

    title: str
    view: str
    guarantees: tuple[str, ...]
    statement: str
    facts: tuple[tuple[str, str], ...]
    warning: str = ""

    @classmethod
    def of(cls, releases: tuple[Release, ...], title: str | None = None, view: str = "") -> Caption:
        """Caption of one release, or of the difference of two."""
        first = releases[0]
        seeded = any(not release.guarantee.private for release in releases)
        default = "Private density" if len(releases) == 1 else "Difference of two private densities"
        kernel = repr(first.kernel) if first.kernel is not None else str(first.kernel_document.get("name"))
        statements = dict.fromkeys(release.statement() for release in releases)
        return cls(
            title=title or default,
            view=view,
            guarantees=tuple(str(release.guarantee) for release in releases),
            statement="\n".join(statements),
            facts=(
                ("kernel", kernel),
                ("records", " and ".join(_count_text(release) for release in releases)),
                ("method", " and ".join(dict.fromkeys(release.method for release in releases))),
            ),
            warning="the noise came from a seed; do not publish" if seeded else "",
        )

    def not_private(self, reason: str) -> Caption:
        """Return the caption of a picture that shows private points."""
        return replace(self, warning="; ".join(filter(None, [reason, self.warning])))

    @property
    def guarantee_text(self) -> str:
        """The guarantees on one line, after the warning if there is one."""
        text = " | ".join(f"guarantee: {guarantee}" for guarantee in self.guarantees)
        return f"NOT PRIVATE: {self.warning}. {text}" if self.warning else text


def _count_text(release: Release) -> str:
    count = release.count
    return f"{count.value:,}" if count.public else f"about {count.value:,} ± {math.sqrt(count.variance):,.0f}"
