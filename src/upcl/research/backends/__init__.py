"""Where the runs of a grid are executed: processes of this machine, a dask cluster, or Slurm.

A job is always the same: the run of one request in a folder that its config names, begun or resumed. So every back
end may start it again, and what it started before is continued.
"""

from .base import Backend, ExecutorOptions, RunHandle, make_backend

__all__ = ["Backend", "ExecutorOptions", "RunHandle", "make_backend"]
