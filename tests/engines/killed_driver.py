"""A release on Spark that waits in mid-sum for its driver to be killed; ``python -m tests.engines.killed_driver``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sfumato import Ledger, PrivateKDE
from sfumato.engines.shipping import Partial, Work
from sfumato.engines.spark import SparkEngine
from sfumato.sources import open_source
from sfumato.sources.remote import Remote
from tests.engines.workers import Waiting, start_local, write_points


class Slow(SparkEngine):
    """Waits in every task."""

    def __init__(self, folder: Path) -> None:
        super().__init__(start_local(folder / "spark", "local[1]").session)
        self.folder = folder

    def run(self, read: Remote, work: Work, take: Callable[[Partial], None]) -> None:
        super().run(read, replace(work, encoder=Waiting(work.encoder, str(self.folder), 600)), take)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "spark").mkdir()
    account = Ledger(folder / "ledger").account("points")
    account.set_budget(1)
    model = PrivateKDE(bandwidth=1.0, epsilon=1, n_hint=8000, ledger=account, engine=Slow(folder))
    model.fit(open_source(write_points(folder), ["x", "y"])).release_.save(folder / "out.sfm")
