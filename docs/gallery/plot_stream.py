"""
A stream that is killed and goes on
===================================

A `lwcs.StreamingCoreset` summarises rows as they arrive, in memory that does
not grow, and can be saved at any time. Here, the process that reads the
stream is killed without a warning. Another process loads the last checkpoint,
and ends with exactly the coreset of a process that was never interrupted.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import lwcs

BLUE, ORANGE, RED = "#0072B2", "#E69F00", "#D55E00"

# %%
# The worker
# ----------
#
# A script of its own, as it would be on a server. Every batch can be read
# again by its number, as from a log with offsets. A checkpoint is saved after
# every tenth batch. The stream knows how many rows it has seen, and so where
# to go on.

WORKER = """
import sys
from pathlib import Path
from time import sleep
import numpy as np
import lwcs

checkpoint, result = map(Path, sys.argv[1:])
if checkpoint.exists():
    stream = lwcs.load(checkpoint)
else:
    stream = lwcs.StreamingCoreset(size=300, random_state=0)

for number in range(stream.n_samples // 1_000, 100):
    rng = np.random.default_rng(number)
    place = [0.2 * number, 3 * np.sin(number / 15)]
    stream.update(place + rng.standard_t(4, size=(1_000, 2)))
    print(number, flush=True)
    if (number + 1) % 10 == 0:
        stream.save(checkpoint)
    sleep(0.01)
stream.coreset().save(result)
"""
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
(folder / "worker.py").write_text(WORKER)


def start(name):
    """Start the worker; its standard output has a line for every batch."""
    files = [f"{name}.checkpoint.parquet", f"{name}.parquet"]
    return subprocess.Popen(
        [sys.executable, "worker.py", *files],
        cwd=folder, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


# %%
# Never killed
# ------------

with start("undisturbed") as worker:
    batches = [int(line) for line in worker.stdout]
print(f"batches {batches[0]} to {batches[-1]}, exit status {worker.returncode}")

# %%
# Killed
# ------
#
# A process cannot catch SIGKILL: it ends in the middle of whatever it does.
# The signal is sent when batch 43 is reported.

with start("killed") as worker:
    before = []
    for line in worker.stdout:
        before.append(int(line))
        if before[-1] == 43:
            os.kill(worker.pid, signal.SIGKILL)
print(f"batches {before[0]} to {before[-1]}, exit status {worker.returncode}")
print("result written:", (folder / "killed.parquet").exists())

# %%
# The same command again
# ----------------------
#
# The worker finds the checkpoint, and reads the batches after it a second
# time. They are not counted twice, since the checkpoint has not seen them. It
# does not matter either if the signal arrives while a checkpoint is being
# saved: a file appears as a whole, or not at all.

with start("killed") as worker:
    after = [int(line) for line in worker.stdout]
print(f"batches {after[0]} to {after[-1]}, exit status {worker.returncode}")

undisturbed = lwcs.load(folder / "undisturbed.parquet")
killed = lwcs.load(folder / "killed.parquet")
scratch.cleanup()
assert killed == undisturbed
print("the same coreset, to the last bit:", killed == undisturbed)

# %%
# The three runs, and the two coresets. The area of a point is its weight.

figure, (runs, points) = plt.subplots(
    2, 1, figsize=(8, 6), layout="constrained", height_ratios=(1, 2)
)
ends = [100, len(before), 100 - after[0]]
names = ["never killed", "killed", "started again"]
runs.barh(names, ends, left=[0, 0, after[0]], color=[BLUE, ORANGE, ORANGE])
runs.plot(len(before), 1, marker="X", markersize=12, color=RED, clip_on=False)
runs.text(len(before) + 2, 1, "SIGKILL", va="center", color=RED)
runs.axvline(after[0], color="black", linestyle=":", linewidth=1)
runs.set(xlabel="batches (dotted: the last checkpoint)", xlim=(0, 100))
runs.invert_yaxis()

x, y = undisturbed.points.T
area = undisturbed.weights / 8
points.scatter(x, y, s=area, facecolors="none", edgecolors=BLUE, label=names[0])
x, y = killed.points.T
points.scatter(x, y, s=area / 6, color=ORANGE, label="killed and started again")
points.set_title(
    f"{killed.size} draws of {killed.n_samples:,} rows", fontsize=10
)
points.legend(loc="upper right", fontsize="small")
plt.show()
