"""A standalone cluster of one master and two workers on the loopback device, and what is tried on it.

``python -m tests.engines.on_cluster FOLDER`` prints JSON; a process of its own, for there is one Spark in a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyspark
from scipy.stats import chi2

from sfumato.engines import Threads, shipping
from sfumato.engines.base import Presence
from sfumato.kernels import Gaussian
from sfumato.privacy.bits import SecureBits
from sfumato.quantizers import FourierQuantizer
from sfumato.sources import open_source
from tests.engines.workers import (
    GROUPS,
    ROWS,
    Groups,
    Outrun,
    Waiting,
    attempts,
    begun,
    free_port,
    start_local,
    write_points,
)  # fmt: skip

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SPECULATION = {  # which Spark leaves out in local mode, whatever its settings say
    "spark.speculation": "true", "spark.speculation.interval": "20ms", "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
}  # fmt: skip


def _daemon(folder: Path, kind: str, host: str, *words: str) -> subprocess.Popen[bytes]:
    spark = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1",
    }  # fmt: skip
    log = (folder / f"{kind}-{host}.log").open("wb")
    command = [spark / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--host", host]
    return subprocess.Popen([*command, "--webui-port", "0", *words], env=environment, stdout=log, stderr=log)


def executors() -> list[psutil.Process]:
    """Executors of the cluster, which are children of its workers, which are children of this process."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()) and "java" in each.name():
                found.append(each)
    return found


def main(folder: Path) -> dict[str, object]:
    """Sum while one attempt overtakes another, and while an executor is killed."""
    shipping.TASK_NUMBERS = 1  # every row group is a task
    port, found = free_port(), {}
    url = f"spark://127.0.0.1:{port}"
    daemons = [_daemon(folder, "Master", "127.0.0.1", "--port", str(port))]
    for host in ("127.0.0.1", "127.0.0.2"):  # Spark runs no copy of a task on a host that runs the task
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / host))
        daemons.append(_daemon(folder, "Worker", host, *work, url))
    try:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        engine = start_local(folder, url, **LOOPBACK, **SPECULATION)
        points = write_points(folder)
        source, numbers = open_source(points, ["x", "y"]), open_source(points, ["number"])
        encoder = FourierQuantizer.draw(Gaussian(1.0), 2, 20, 1, layout="pair")
        until = time.monotonic() + 120
        while len(executors()) < 2 and time.monotonic() < until:
            time.sleep(0.2)
        found["executors"] = len(executors())
        sums = Threads(1).sum(source, encoder)[0]
        found["equal"] = bool(np.array_equal(engine.sum(source, Outrun(encoder, str(folder)))[0], sums))
        found["attempts"] = attempts(folder)
        killed: list[int] = []

        def kill() -> None:
            if begun(folder):
                victim = executors()[0]
                killed.append(victim.pid)
                victim.kill()
            (folder / "go").touch()

        thread = threading.Thread(target=kill)
        thread.start()
        counts, kept, seen = engine.sum(numbers, Waiting(Groups(), str(folder)), SecureBits())
        thread.join()
        found |= {"killed": len(killed), "kept": kept, "seen": seen, "values": counts[GROUPS:].tolist()}
        found["groups"] = int(counts[:GROUPS].sum())
        deviation = ((counts[:GROUPS] - ROWS / GROUPS) ** 2 / (ROWS / GROUPS)).sum()
        found["p"] = float(chi2.sf(deviation, GROUPS - 1))
        found["count"] = engine.sum(source, Presence())[1]
        engine.session.stop()
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(60)
    return found


if __name__ == "__main__":
    print("FOUND " + json.dumps(main(Path(sys.argv[1]))))
