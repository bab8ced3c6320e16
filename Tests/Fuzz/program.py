"""Builds the fuzzed program. Posthouse's own modules are compiled anew, with libFuzzer's counters and most of them
optimised; what they depend on (NIO, Crypto) comes from the ordinary build as it is. So this takes a minute instead of
ten, and coverage means Posthouse's code alone. How each module is compiled is read from the ordinary build's manifest:
nothing is written twice."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZ_SOURCES = ROOT / "Tests" / "Fuzz"

# Each wave depends on those before it.
WAVES = [
    ["CToml", "Linux", "Vocabulary", "JSONText"],
    ["Postgres", "Spool"],
    ["HTTPServer", "HTTPClient", "Configuration", "Ledger"],
    ["Inbound", "Outbound", "API"],
    ["Fuzz"],
]

# Optimising these takes longer than it saves in the seconds that they run. They have their counters all the same.
UNOPTIMISED = {"Linux", "Postgres", "Spool", "Ledger", "API"}

# Of the ordinary build's arguments: what belongs to its own way of building, alone and with a value.
DROPPED = {
    "-emit-dependencies", "-incremental", "-enable-batch-mode", "-serialize-diagnostics", "-parseable-output",
    "-emit-objc-header", "-Onone", "-O0", "-MD",
}  # fmt: skip
DROPPED_WITH_VALUE = {
    "-emit-module-path", "-output-file-map", "-index-store-path", "-emit-objc-header-path", "-module-cache-path", "-MT",
    "-MF", "-o", "-module-name",
}  # fmt: skip


class BuildError(Exception):
    """What keeps the program from being built, for whoever runs it."""


class Libraries:
    """The ordinary debug build: how it compiles a module, and the objects that it links."""

    def __init__(self, build: pathlib.Path) -> None:
        self.build = build.resolve()
        manifest = self.build / "debug.yaml"
        if not manifest.is_file() or not self._link_list().is_file():
            raise BuildError(f"there is no debug build in {build}: run `swift build` first")
        self._manifest = manifest.read_text()

    def _link_list(self) -> pathlib.Path:
        return self.build / "debug" / "posthouse.product" / "Objects.LinkFileList"

    def compile_arguments(self, module: str) -> list[str]:
        """The compiler with all that the ordinary build gives it, but for sources, outputs and optimisation. Paths of
        the sources are those of this checkout: the libraries may be another's."""
        key = r'/CToml\.build/[^"]*\.o' if module == "CToml" else rf'C\.{module}-[^"]*-debug\.module'
        found = re.search(rf'^  "[^"]*{key}":\n(?:    .*\n)*?    args: (\[.*\])$', self._manifest, re.MULTILINE)
        if not found:
            raise BuildError(f"the ordinary build does not say how it compiles {module}")
        arguments: list[str] = []
        skips = False
        for argument in json.loads(found[1]):
            if skips or argument in DROPPED_WITH_VALUE:
                skips = not skips and argument in DROPPED_WITH_VALUE
            elif argument not in DROPPED and not argument.startswith("@") and not re.fullmatch(r"-j\d+", argument):
                arguments.append(argument.replace(f"{self.build.parent}/Sources/", f"{ROOT}/Sources/"))
        return arguments

    def derived_sources(self, module: str) -> list[pathlib.Path]:
        return sorted((self.build / "debug" / f"{module}.build" / "DerivedSources").glob("*.swift"))

    def objects(self) -> list[str]:
        """Those of everything that is not Posthouse's own."""
        own = {folder.name for folder in (ROOT / "Sources").iterdir()}
        lines = [line.strip().strip("'\"") for line in self._link_list().read_text().splitlines()]
        return [line for line in lines if line and not any(f"/{name}.build/" in line for name in own)]


def sources(module: str, libraries: Libraries) -> list[pathlib.Path]:
    if module == "Fuzz":
        return sorted(FUZZ_SOURCES.glob("*.swift"))
    files = sorted((ROOT / "Sources" / module).rglob("*.cpp" if module == "CToml" else "*.swift"))
    return files + libraries.derived_sources(module)


def c_arguments(arguments: list[str]) -> list[str]:
    """Those that the C compiler inside the Swift compiler gets."""
    pairs = zip(arguments, arguments[1:])
    return [part for flag, value in pairs if flag == "-Xcc" for part in (flag, value)]


def _run(command: list[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if "error:" in line]
        shown = "\n".join(lines[:20]) or (result.stderr + result.stdout)[-2000:]
        raise BuildError(f"{what} failed:\n{shown}")


@dataclasses.dataclass
class Program:
    """The program and where it is built. `address`: with the address sanitizer too, which looks past what Swift checks
    by itself: into the C++ of the TOML reader, and into unsafe loads."""

    libraries: Libraries
    address: bool = False

    @property
    def out(self) -> pathlib.Path:
        return ROOT / (".build-fuzz-address" if self.address else ".build-fuzz")

    @property
    def binary(self) -> pathlib.Path:
        return self.out / "fuzz"

    def _object(self, module: str) -> pathlib.Path:
        return self.out / f"{module}.o"

    def command(self, module: str) -> list[str]:
        output = ["-o", str(self._object(module))]
        if module == "CToml":
            kinds = "-fsanitize=fuzzer-no-link" + (",address" if self.address else "")
            return [*self.libraries.compile_arguments(module), "-O1", kinds, *output]
        arguments = self.libraries.compile_arguments("API" if module == "Fuzz" else module)
        if module == "Fuzz":
            # It imports what no single module does: all their C headers must be found.
            for other in ["HTTPServer", "HTTPClient", "Inbound", "Outbound", "Configuration"]:
                arguments += c_arguments(self.libraries.compile_arguments(other))
        compiler, *rest = arguments
        # Said to the frontend: with its own -Onone the driver would make two objects of one name.
        optimisation = ["-O", *(["-Xfrontend", "-Onone"] if module in UNOPTIMISED else [])]
        return [
            compiler, "-module-name", module, "-I", str(self.out), *rest, *optimisation, "-whole-module-optimization",
            *self._sanitizers(), "-module-cache-path", str(self.out / "ModuleCache"), "-emit-module-path",
            str(self.out / f"{module}.swiftmodule"), *output, *map(str, sources(module, self.libraries)),
        ]  # fmt: skip

    def _sanitizers(self) -> list[str]:
        return ["-sanitize=fuzzer,address" if self.address else "-sanitize=fuzzer"]

    def _command_file(self, module: str) -> pathlib.Path:
        """The command that an object was compiled by."""
        return self.out / f"{module}.command"

    def _is_current(self, module: str) -> bool:
        output, command = self._object(module), self._command_file(module)
        if not output.is_file() or not command.is_file() or command.read_text() != " ".join(self.command(module)):
            return False
        files = sources(module, self.libraries)
        return all(file.stat().st_mtime < output.stat().st_mtime for file in files)

    def _compile(self, module: str) -> None:
        _run(self.command(module), f"compiling {module}")
        # The compiler leaves an object alone that would be the same.
        os.utime(self._object(module))
        self._command_file(module).write_text(" ".join(self.command(module)))

    def build(self, jobs: int) -> None:
        """Brings the program up to date; does nothing where it is."""
        self.out.mkdir(exist_ok=True)
        is_stale = False
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for wave in WAVES:
                # What depends on something that is compiled anew is compiled anew.
                due = [module for module in wave if is_stale or not self._is_current(module)]
                if due:
                    print(f"compiling {', '.join(due)}", flush=True)
                    list(pool.map(self._compile, due))
                    is_stale = True
        objects = [self._object(module) for wave in WAVES for module in wave]
        newest = max(file.stat().st_mtime for file in objects)
        if not self.binary.is_file() or self.binary.stat().st_mtime < newest:
            self._link([*map(str, objects), *self.libraries.objects()])

    def _link(self, objects: list[str]) -> None:
        listed = self.out / "objects"
        listed.write_text("".join(f"'{name}'\n" for name in objects))
        compiler = self.libraries.compile_arguments("Vocabulary")[0]
        _run(
            [compiler, *self._sanitizers(), "-emit-executable", "-module-name", "fuzz", "-o", str(self.binary),
             f"@{listed}", "-lpq", "-lstdc++", "-ldl", "-g"],
            "linking",
        )  # fmt: skip
