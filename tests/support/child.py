"""A process of its own, for what may crash or hang and must harm nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

from support.places import ROOT


class Child:
    """Runs ``serve()`` of a module of tests; after a crash the next job gets a new process.

    What the two say to one another is up to the module.
    """

    def __init__(self, module: str, seconds: float) -> None:
        """Start nothing yet: the first job does.

        Args:
            module: whose ``serve`` answers on standard output what comes on standard input.
            seconds: what an answer may take.
        """
        self._module, self._seconds = module, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it

    def close(self) -> None:
        """End the process for good."""
        self._end()
        self._log.close()

    def _running(self) -> subprocess.Popen[bytes]:
        self._process = self._process or self._start()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        self._forget_words()
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r}); "
            f"from {self._module} import serve; serve()"
        )
        return subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def _forget_words(self) -> None:
        self._log.seek(0)
        self._log.truncate()

    def _last_words(self) -> str:
        """The last line that the process wrote to standard error."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f": {said[-1][:300]}" if said else ""

    def _obituary(self, code: int) -> str:
        """How a process ended that gave ``code``; it is taken away."""
        how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        words = self._last_words()
        self._end()
        return f"the process {how}{words}"
