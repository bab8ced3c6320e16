"""How a program of the tests begins and ends: by itself, by a signal, or with an error that is said in a line."""

import contextlib
import signal
import sys
from collections.abc import Callable

from processes import BenchError, raise_file_limit

ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run_as_program(name: str, main: Callable[[], int]) -> None:
    """Runs `main` and exits with what it returns; whatever ends it, its `with` blocks clean up."""
    raise_file_limit()
    for ending in ENDINGS:
        signal.signal(ending, _stop)
    try:
        sys.exit(main())
    except BenchError as error:
        with contextlib.suppress(BrokenPipeError):
            print(f"{name}: {error}", file=sys.stderr)
        sys.exit(1)


def _stop(number: int, _: object) -> None:
    # Once: a second one must not cut short the cleaning up.
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise SystemExit(128 + number)
