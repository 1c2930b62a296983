"""Work done by several threads at once."""

import threading
from collections.abc import Callable

THREADS = 8
RUNS = 200


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Have threads do the same work, each with its number, and raise what the first to fail did."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def guarded(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - it is raised again, where the test sees it
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
