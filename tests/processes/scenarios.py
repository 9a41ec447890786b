"""Programs that use sessions and processes. Each function runs in its own process."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from processes.children import in_child
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends import chunked_copy
from fourfold.store.store import memory_store
from fourfold.support.forks import ForkSafeLock

X = numbers(1)
THREE = numbers(2, rows=3)


def main(name: str, *arguments: str) -> None:
    result = globals()[name](*arguments)
    sys.stdout.write(f"{json.dumps(result)}\n")


def is_correct(session: fourfold.Session, x: np.ndarray = X) -> bool:
    return bool(np.allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-5))


def opens(device: str) -> bool:
    with fourfold.Session(matrix(), device) as session:
        return is_correct(session)


def opened_before_the_fork(device: str) -> list[object]:
    session = fourfold.Session(matrix(), device)
    told: list[object] = [is_correct(session)]

    def drop() -> str:
        nonlocal session
        del session
        return "dropped"

    told += [in_child(action) for action in (lambda: is_correct(session), lambda: opens(device))]
    told += [in_child(action) for action in (session.close, drop, lambda: "nothing")]
    told += [in_child(lambda: len(fourfold.devices()) > 0), in_child(lambda: opens("cpu"))]
    return [*told, is_correct(session)]


def nothing_before_the_fork(device: str) -> list[object]:
    return [in_child(lambda: opens(device)), opens(device)]


def devices_before_the_fork(device: str) -> list[object]:
    fourfold.devices()
    return [in_child(lambda: opens(device)), in_child(lambda: "nothing"), opens(device)]


def on_the_cpu(cache: str) -> list[object]:
    """Fork two children, the second from the first, while the parent continues."""
    session = fourfold.Session(matrix(), device="cpu", threads=4, cache=cache)
    told: list[object] = [is_correct(session)]

    def twice() -> object:
        return [is_correct(session), is_correct(session), in_child(lambda: is_correct(session))]

    def closed() -> object:
        session.close()
        return is_correct(session)

    told += [in_child(twice), in_child(lambda: "nothing"), in_child(closed)]
    return [*told, is_correct(session)]


def resized_on_the_cpu() -> list[object]:
    session = fourfold.Session(matrix(), device="cpu")
    session.resize(x=(3, 4))
    return [in_child(lambda: [list(session.inputs[0].shape), is_correct(session, THREE)])]


@contextmanager
def busy(action: Callable[[], object], threads: int = 2) -> Iterator[None]:
    """Run an action repeatedly in other threads during the context."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            action()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    yield
    stop.set()
    for worker in workers:
        worker.join()


def while_others_run(device: str) -> list[object]:
    """Fork at random moments while other threads run sessions. Locks inside an engine's own code
    are out of our control while it opens a model.
    """
    on_cpu = fourfold.Session(matrix(), device="cpu", threads=2)
    session = fourfold.Session(matrix(), device)
    told: list[object] = []
    with busy(lambda: is_correct(on_cpu)), busy(lambda: is_correct(session)):
        for _ in range(8):
            told += [in_child(lambda: is_correct(on_cpu)), in_child(lambda: is_correct(session))]
    return [*told, is_correct(session)]


def with_a_memory_store() -> list[object]:
    """Fork at random moments while other threads use the in-memory cache."""
    store = memory_store()
    session = fourfold.Session(matrix(), device="cpu", cache="memory")
    with busy(lambda: store.put_choice("a device", "a key", "a choice", 1.0)):
        return [in_child(lambda: is_correct(session)) for _ in range(8)]


def worker_of_a_pool(session: fourfold.Session) -> object:
    return is_correct(session)


def sent_to_processes(device: str, method: str) -> list[object]:
    """Pass a session as an argument: it is pickled, and opened again in the worker."""
    context = multiprocessing.get_context(method)
    with fourfold.Session(matrix(), device) as session:
        with context.Pool(2) as pool:
            outcomes = pool.map(worker_of_a_pool, [session] * 3)
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            return [*outcomes, *executor.map(worker_of_a_pool, [session] * 3)]


_of_this_worker: list[fourfold.Session] = []


def open_in_worker(device: str) -> None:
    _of_this_worker.append(fourfold.Session(matrix(), device))


def run_in_worker(_number: int) -> bool:
    return is_correct(_of_this_worker[0])


def opened_by_workers(device: str, method: str) -> list[object]:
    """Open a session in each worker with an initializer; the parent never opens one."""
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(
        2, mp_context=context, initializer=open_in_worker, initargs=(device,)
    ) as executor:
        return list(executor.map(run_in_worker, range(4)))


def server_with_workers(device: str, when: str) -> list[object]:
    """Run a server that loads the application and then forks workers that answer requests."""
    application: list[fourfold.Session] = []

    def answer() -> object:
        if not application:
            application.append(fourfold.Session(matrix(), device))
        return is_correct(application[0])

    if when == "before":
        answer()
    return [in_child(answer) for _ in range(2)]


class Samples:
    """A data set whose samples are prepared by a model; the session is opened where needed."""

    def __init__(self, device: str, at_once: bool) -> None:
        self._device = device
        self._session = fourfold.Session(matrix(), device) if at_once else None

    def __getitem__(self, number: int) -> bool:
        if self._session is None:
            self._session = fourfold.Session(matrix(), self._device)
        return is_correct(self._session)


def load(samples: Samples, numbers: list[int], results: multiprocessing.SimpleQueue) -> None:
    try:
        results.put([samples[number] for number in numbers])
    except fourfold.FourfoldError as error:
        results.put(error)


def loader_with_workers(device: str, method: str, at_once: str) -> list[object]:
    """Pass a data set to every worker, like PyTorch's DataLoader."""
    context = multiprocessing.get_context(method)
    samples, results = Samples(device, at_once == "at once"), context.SimpleQueue()
    workers = [context.Process(target=load, args=(samples, [0, 1], results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    outcomes = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return [str(one).splitlines()[0] if isinstance(one, Exception) else one for one in outcomes]


def ends_after_onnxruntime(model: str) -> list[object]:
    session = fourfold.Session(model, device="cpu")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

    def right() -> bool:
        return bool(np.array_equal(session.run(x)["y"], np.maximum(x, 0)))

    return [right(), in_child(lambda: [right(), right()]), in_child(lambda: "nothing")]


def left_open_at_the_end(device: str) -> bool:
    """Leave sessions open in a module, a cycle, a generator and in flight."""
    kept = globals()["kept"] = [fourfold.Session(matrix(), name) for name in (device, "cpu")]
    cycle: dict[str, object] = {"session": fourfold.Session(matrix(), device)}
    cycle["cycle"] = cycle
    globals()["results"] = kept[0].stream([X] * 5)
    next(globals()["results"])
    globals()["future"] = kept[0].run_async(X)
    return all(is_correct(session) for session in kept)


def with_threads_at_the_end(device: str, daemon: str) -> bool:
    """Run sessions in threads when the last line of the program is reached."""
    sessions = globals()["kept"] = [fourfold.Session(matrix(), name) for name in (device, "cpu")]
    begun, told = threading.Event(), []

    def work(session: fourfold.Session) -> None:
        for number in range(1000 if daemon == "daemon" else 200):
            told.append(is_correct(session))
            if number == 50:
                begun.set()
        assert all(told)

    for session in sessions * 2:
        threading.Thread(target=work, args=(session,), daemon=daemon == "daemon").start()
    return begun.wait(60)


def run_by_atexit(device: str) -> bool:
    """Run sessions with large inputs from a function registered with atexit."""
    session = fourfold.Session(matrix(), device, shapes={"x": (300_000, 4)})
    large = numbers(3, rows=300_000)

    def last() -> None:
        assert is_correct(session, large)

    atexit.register(last)
    return is_correct(session, large)


def gone_before_the_end(device: str) -> bool:
    """Finalizers of driver objects must not need module globals, which are gone by then."""
    session = fourfold.Session(matrix(), device)
    sys.modules["a module that is never let go of"] = session  # type: ignore[assignment]
    return is_correct(session)


def copies_by_threads() -> list[object]:
    """Threads that copy large arrays are created again in a child, which has none of the
    parent's.
    """
    chunked_copy.os.cpu_count = lambda: 8  # type: ignore[attr-defined]
    large = np.arange(chunked_copy.THREADED_COPY_BYTES, dtype=np.uint8)

    def is_copied() -> bool:
        return bool(np.array_equal(chunked_copy.copied(large), large))

    return [is_copied(), in_child(is_copied), is_copied()]


def locks_of_other_threads() -> list[object]:
    """Hold locks in a thread while another one forks."""
    told: list[object] = []
    for make in (threading.Lock, threading.RLock):
        lock, held, done = ForkSafeLock(make), threading.Event(), threading.Event()

        def hold(lock: ForkSafeLock = lock, held: Any = held, done: Any = done) -> None:
            with lock:
                held.set()
                done.wait()

        def take(lock: ForkSafeLock = lock) -> str:
            with lock:
                return "taken"

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        told.append(in_child(take))
        done.set()
        thread.join()
        told.append(take())
    return told
