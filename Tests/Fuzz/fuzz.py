"""Fuzzes what reads bytes that others wrote: coverage-guided, by libFuzzer, the targets side by side. Prints a line for
each target, and as the last line how many held."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import program

TARGETS = {"body": 4096, "wire": 4096, "configuration": 4096, "texts": 1024}  # the longest input, bytes
INPUT_SECONDS_MAX = 5
END_SECONDS_MAX = 600  # past its time: what it takes to read the corpus and to end
MEMORY_MB_MAX = 1024
CORPUS = program.FUZZ_SOURCES / "corpus"


@dataclasses.dataclass
class Outcome:
    """What a run of one target brought; `finding` is what broke it."""

    target: str
    line: str
    finding: str | None


def environment(target: str) -> dict[str, str]:
    # A crash must end the run, not start an interactive backtrace.
    return {**os.environ, "POSTHOUSE_FUZZ_TARGET": target, "SWIFT_BACKTRACE": "enable=no",
            # What Swift's runtime keeps for the life of the process is not a leak.
            "ASAN_OPTIONS": "detect_leaks=0"}  # fmt: skip


def found_corpus(built: program.Program, target: str) -> pathlib.Path:
    """What earlier runs found: not committed, and a head start for the next run on this machine."""
    folder = built.out / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(built: program.Program, target: str, seconds: int, seed: int) -> Outcome:
    findings = built.out / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    log = built.out / f"{target}.log"
    command = [
        str(built.binary), str(found_corpus(built, target)), str(CORPUS / target), f"-max_total_time={seconds}",
        f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-max_len={TARGETS[target]}",
        f"-dict={program.FUZZ_SOURCES / (target + '.dict')}", "-print_final_stats=1", f"-seed={seed}",
        f"-artifact_prefix={findings}/{target}-",
    ]  # fmt: skip
    # libFuzzer holds the time by itself; beyond it something outside an input hangs.
    latest = seconds + END_SECONDS_MAX
    with log.open("wb") as output:
        try:
            status = subprocess.run(
                command, stdout=output, stderr=output, env=environment(target), timeout=latest
            ).returncode
        except subprocess.TimeoutExpired:
            return Outcome(target, f"{target}: did not end", f"it still ran after {latest} s (log: {log})")
    text = log.read_text(errors="replace")
    holds = status == 0 or is_fast_alone(built, target, text)
    return Outcome(target, summary(target, text), None if holds else finding(text, log))


def is_fast_alone(built: program.Program, target: str, text: str) -> bool:
    """Whether what ended the run is one input that took too long, and takes no longer than it may when it is run again:
    then the machine stood still. Several tries, for it may do so again."""
    file = re.search(r"Test unit written to (\S+)", text)
    if "libFuzzer: timeout" not in text or not file:
        return False
    command = [str(built.binary), f"-timeout={INPUT_SECONDS_MAX}", file[1]]
    return any(
        subprocess.run(command, capture_output=True, env=environment(target)).returncode == 0 for _ in range(3)
    )


def summary(target: str, text: str) -> str:
    """`body: 120000 inputs (2000/s); 5120 places reached, 3 of them new; 412 inputs kept`."""
    reached = [(int(cov), int(kept)) for cov, kept in re.findall(r"cov: (\d+) .*?corp: (\d+)", text)]
    begun = re.search(r"INITED cov: (\d+)", text)
    inputs = re.search(r"stat::number_of_executed_units: (\d+)", text)
    rate = re.search(r"stat::average_exec_per_sec: +(\d+)", text)
    if not reached or not begun or not inputs or not rate:
        return f"{target}: it did not come to its first input"
    places, kept = reached[-1]
    new = places - int(begun[1])
    return f"{target}: {inputs[1]} inputs ({rate[1]}/s); {places} places reached, {new} of them new; {kept} inputs kept"


def finding(text: str, log: pathlib.Path) -> str:
    """What broke, and the input that does it."""
    why = re.search(r"^BROKEN: .*|^.*Fatal error: .*|^==\d+== ?ERROR: .*", text, re.MULTILINE)
    file = re.search(r"Test unit written to (\S+)", text)
    again = f"\n    again: deploy/fuzz {log.stem} --input {file[1]}" if file else ""
    return f"{why[0] if why else 'it ended by itself'} (log: {log}){again}"


def renew(built: program.Program, target: str) -> None:
    """Adds to the committed corpus the smallest set of found inputs that reaches what it does not reach by itself. How
    often a place is passed does not count here, or there would be thousands."""
    command = [
        str(built.binary), "-set_cover_merge=1", "-use_counters=0", f"-max_len={TARGETS[target]}",
        str(CORPUS / target), str(found_corpus(built, target)),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, env=environment(target))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deploy/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target; 60 by default")
    parser.add_argument("--jobs", type=int, default=2, help="targets at once; 2 by default")
    parser.add_argument("--seed", type=int, help="of libFuzzer; drawn by default, and printed")
    parser.add_argument("--input", type=pathlib.Path, help="runs this one input, as a finding says")
    parser.add_argument("--renew", action="store_true", help="afterwards adds to the committed corpus what was found")
    parser.add_argument("--address", action="store_true", help="with the address sanitizer too: slower")
    parser.add_argument("--libraries", type=pathlib.Path, default=program.ROOT / ".build", help="the ordinary build")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    targets: list[str] = options.targets or list(TARGETS)
    try:
        built = program.Program(program.Libraries(options.libraries), options.address)
        built.build(options.jobs)
    except program.BuildError as error:
        print(f"{error}\n0 passed, 1 failed")
        return 1
    if options.input:
        return subprocess.run([built.binary, options.input], env=environment(targets[0])).returncode
    seed = options.seed or int.from_bytes(os.urandom(3)) or 1
    print(f"fuzzing {', '.join(targets)}, {options.seconds} s each, seed {seed}", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(lambda target: run(built, target, options.seconds, seed), targets):
            print(f"  {outcome.line}", flush=True)
            if outcome.finding:
                failed += 1
                print(f"  {outcome.target}: {outcome.finding}", flush=True)
    if options.renew and not failed:
        for target in targets:
            renew(built, target)
    print(f"{len(targets) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
