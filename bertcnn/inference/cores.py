"""How many cores this process may use: limits of machine and container, and a setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bertcnn.errors import SettingsError, one_line

CORES: Final = "BERTCNN_CORES"  # environment variable: number of cores, overrides detection

_GROUPS = Path("/proc/self/cgroup")  # Linux only
_MOUNT = Path("/sys/fs/cgroup")

QuotaReader = Callable[[Path], float | None]  # maps a control group's folder to its quota


def usable_cores() -> int:
    """The number of cores that this process may use, at least 1.

    `BERTCNN_CORES` if set; otherwise the CPU affinity mask, limited by a container's CPU quota.

    Raises:
        SettingsError: `BERTCNN_CORES` is not a positive number.
    """
    if value := os.environ.get(CORES, "").strip():
        if not value.isdecimal() or int(value) < 1:
            raise SettingsError(
                f"{CORES}={one_line(value)}",
                expected="a number of cores, at least 1",
                fix=f"correct {CORES} or remove it",
            )
        return int(value)
    return cores_within(machine_cores(), processor_quota())


def cores_within(cores: int, quota: float | None) -> int:
    """The cores of a machine that a CPU quota allows, rounded to whole cores, at least 1.

    Example:
        >>> cores_within(4, 1.5), cores_within(4, 0.2), cores_within(4, None)
        (2, 1, 4)
    """
    return cores if quota is None else max(1, min(cores, int(quota + 0.5)))


def machine_cores() -> int:
    """The cores in this process's affinity mask, ignoring quotas."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_quota(groups: Path = _GROUPS, mount: Path = _MOUNT) -> float | None:
    """The CPU quota of this process in cores; None without a quota.

    The smallest quota of its control group and all parent groups counts. `groups` is the file that
    lists the process's groups (cgroups(7)), `mount` the folder where groups are mounted.
    """
    try:
        lines = groups.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    quotas = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:  # version 2
            quotas += _quotas(mount, path, _version_2)
        elif "cpu" in controllers.split(","):
            for name in dict.fromkeys(("cpu", controllers)):
                quotas += _quotas(mount / name, path, _version_1)
    return min(quotas, default=None)


def _quotas(mount: Path, path: str, read: QuotaReader) -> list[float]:
    """The quotas of a group and its parents.

    Inside a container, the path may be the host's; then only the mount's own files exist.
    """
    group = mount / path.strip("/")
    quotas = []
    for folder in dict.fromkeys((group, *group.parents)):
        if folder == mount or mount in folder.parents:
            with suppress(OSError, ValueError, ZeroDivisionError):
                quota = read(folder)
                quotas += [] if quota is None else [quota]
    return quotas


def _version_2(group: Path) -> float | None:
    quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
    return None if quota == "max" else int(quota) / int(period)


def _version_1(group: Path) -> float | None:
    quota = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
    period = int((group / "cpu.cfs_period_us").read_text(encoding="ascii"))
    return quota / period if quota > 0 else None
