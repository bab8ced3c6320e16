"""What a reader must know beside a table of figures."""

import os
import pathlib
import platform
import subprocess
import time

from cluster import Cluster
from processes import Scratch, run


def describe(scratch: Scratch, cluster: Cluster, binary: pathlib.Path, checkout: pathlib.Path) -> dict:
    memory_kb = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    return {
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "posthouse": run([str(binary), "--version"], 10).strip(),
        "commit": commit(checkout),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory_kb * 1024 / 1e9, 1),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "postgresql": cluster.version,
        "postgresql_settings": "as initdb leaves them (fsync, synchronous_commit, full_page_writes on)",
        "file_system": subprocess.run(
            ["findmnt", "-no", "FSTYPE,SOURCE", "-T", str(scratch.path)], capture_output=True, text=True,
            check=False).stdout.strip(),
        "fdatasync_per_second": cluster.fsyncs_per_second(),
        "load_average_before": os.getloadavg()[0],
        "versions": {"wrk": first_line(["wrk", "-v"]), "nginx": first_line(["nginx", "-v"]),
                     "pgbench": first_line(["pgbench", "--version"])},
    }


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def commit(checkout: pathlib.Path) -> str:
    asked = subprocess.run(["git", "-C", str(checkout), "describe", "--always", "--dirty"], capture_output=True,
                           text=True, check=False)
    return asked.stdout.strip() or "unknown"


def first_line(command: list[str]) -> str:
    """wrk and nginx print their version on standard error, and wrk with exit code 1."""
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    return ((asked.stdout + asked.stderr).splitlines() or [""])[0].split(" Copyright")[0]


def as_text(machine: dict) -> str:
    text = (f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, Linux {machine['kernel']}, "
            f"PostgreSQL {machine['postgresql']} {machine['postgresql_settings']},\n"
            f"{machine['file_system']} with {machine['fdatasync_per_second']:,.0f} fdatasync/s; "
            f"posthouse {machine['posthouse']} ({machine['commit']}). Load, PostgreSQL, daemon and receivers share "
            f"the machine.")
    if machine["load_average_before"] > machine["cores"] / 2:
        text += (f"\nWARNING: the load average was {machine['load_average_before']:.1f} before anything was measured: "
                 "something else uses this machine, and these figures are worth little.")
    return text
