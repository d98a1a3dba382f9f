"""Sums through Spark Connect, which has no SparkContext; ``python -m tests.engines.on_connect FOLDER URL`` prints JSON.

A process of its own, for one process has sessions of one kind; the server is that of the other tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from sfumato import PrivateKDE
from sfumato.engines import Threads, shipping
from sfumato.engines.spark import SparkEngine
from sfumato.kernels import L2LSH, Gaussian
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.sources import open_source
from tests.engines.workers import LIMIT, PEOPLE, ROWS, Subsets, write_points


def main(folder: Path, url: str) -> dict[str, bool]:
    from pyspark.sql import SparkSession

    shipping.TASK_NUMBERS = 1  # every row group is a task
    session = SparkSession.builder.remote(url).getOrCreate()
    engine, points = SparkEngine(session), write_points(folder)
    frame, source = session.read.parquet(str(points)), open_source(points, ["x", "y"])
    encoder = FourierQuantizer.draw(Gaussian(1.0), 2, 20, 1, layout="pair")
    sums = Threads(1).sum(source, encoder)[0]
    asked = {"method": "race", "epsilon": 1.0, "n_hint": ROWS, "random_state": 3, "feature_seed": 1}
    by_itself = PrivateKDE(L2LSH(1.0), **asked).fit(frame.select("x", "y")).release_.to_bytes()
    limited = engine.counted(open_source(frame, ["number", "bit"], key="person"), LIMIT, SecureBits())
    found = {
        "files": bool(np.array_equal(engine.sum(source, encoder)[0], sums)),
        "frame": bool(np.array_equal(engine.sum(open_source(frame, ["x", "y"]), encoder)[0], sums)),
        "release": by_itself == PrivateKDE(L2LSH(1.0), **asked).fit(source).release_.to_bytes(),
        "users": engine.sum(limited, Subsets())[1] == LIMIT * PEOPLE,
        "remote": ".connect." in type(session).__module__,
    }
    session.stop()
    return found


if __name__ == "__main__":
    print("FOUND " + json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
