"""The four programs of DEPLOYMENT, killed and started again, with each store. ``make test-deployment`` runs this.

They import an installed wheel and not this checkout. A process is killed inside of the body that it runs: a test waits
until that body says that it has begun, so no moment is guessed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import attrs
import httpx
import pytest

from benchmarks.scale.servers import hold_port
from database_servers import postgres, redis

PROGRAMS = Path(__file__).with_name("deployment")
PATIENCE = 120.0  # seconds, for what takes two
LOST = "may have taken effect"


def wait_for(met: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


@attrs.frozen
class Shop:
    """Where a program pays, and what it is told to use."""

    folder: Path
    variables: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**kept, **self.variables, "SHOP_FOLDER": str(self.folder), "PYTHONPATH": str(PROGRAMS)}

    def begun(self, order: str) -> list[int]:
        """The processes that began to pay an order, in their order."""
        notes = self.folder / f"{order}.begun"
        return [int(line) for line in notes.read_text().split()] if notes.exists() else []

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a program of Python, in a process group of its own; its output goes into a file."""
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, *command], cwd=self.folder, env=self.environment, stdout=log, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip

    def log(self) -> str:
        return (self.folder / "log").read_text()


class Program(Protocol):
    """One of the four."""

    def pay(self, order: str, call_id: str) -> str:
        """Make a call with this id, and return what the model is told. A process that dies under it answers ""."""
        ...

    def restart(self) -> None:
        """Kill all of its processes, and start it again."""
        ...


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@attrs.define
class Web:
    """FastAPI, in two worker processes of uvicorn."""

    shop: Shop
    port: int = attrs.field(factory=hold_port)
    server: subprocess.Popen[str] | None = None

    def restart(self) -> None:
        if self.server is not None:
            end(self.server)
        options = ["--workers", "2", "--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"]
        self.server = self.shop.start("-m", "uvicorn", "web:app", *options)
        wait_for(lambda: self._ask("GET", "/openapi.json") is not None, self.shop.log())

    def pay(self, order: str, call_id: str) -> str:
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": "pay", "arguments": json.dumps({"order": order})},
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        reply = {"id": f"chatcmpl-{call_id}", "object": "chat.completion", "choices": [choice]}
        answer = self._ask("POST", "/turn", json=reply, headers={"x-thread": "orders"})
        return "" if answer is None else str(answer[0]["content"])

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = httpx.request(method, f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE, **options)
        except httpx.TransportError:
            return None
        assert answer.status_code == 200, self.shop.log()
        return answer.json()

    def close(self) -> None:
        if self.server is not None:
            end(self.server)


@attrs.define
class Tasks:
    """Celery, with two worker processes. It delivers the task of a worker that died again by itself."""

    shop: Shop
    worker: subprocess.Popen[str] | None = None
    app: Any = None

    def restart(self) -> None:
        if self.worker is not None:
            end(self.worker)
        else:
            broker = self.shop.variables["SHOP_BROKER"]
            self.app = import_module("celery").Celery("shop", broker=broker, backend=broker)
        options = ["--concurrency", "2", "--pool", "prefork", "--loglevel", "warning", "--without-mingle"]
        self.worker = self.shop.start("-m", "celery", "-A", "tasks", "worker", *options)
        wait_for(lambda: bool(self.app.control.ping(timeout=0.5)), "a worker of Celery")

    def pay(self, order: str, call_id: str) -> str:
        self.app.backend.delete(self.app.backend.get_key_for_task(call_id))  # else the first answer is read again
        return str(self.app.send_task("tasks.pay_order", [order], task_id=call_id).get(timeout=PATIENCE))

    def close(self) -> None:
        if self.worker is not None:
            end(self.worker)
        if self.app is not None:
            self.app.close()


@attrs.define
class Agent:
    """An agent of LangChain whose thread is in a file; each turn is a process of its own."""

    shop: Shop

    def restart(self) -> None:
        """No process of it lives longer than its turn."""

    def pay(self, order: str, call_id: str) -> str:
        command = [sys.executable, str(PROGRAMS / "agent.py"), order, call_id]
        environment = self.shop.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.stdout

    def close(self) -> None:
        pass


CELL = """\
print(render(await pipeline.call("pay", {{"order": {order!r}}}, id={call_id!r}, conversation="orders")), end="")
"""
FIRST_CELL = """\
from shop import open_store, tools
from toolcall_pipeline import render
from toolcall_pipeline.middlewares import standard

pipeline = standard(tools, store=open_store())
"""


@attrs.define
class Notebook:
    """A kernel of Jupyter: the pipeline lives in one cell, and is called in others, without a block around it."""

    shop: Shop
    manager: Any = None
    client: Any = None

    def restart(self) -> None:
        if self.manager is None:
            self.manager = import_module("jupyter_client.manager").KernelManager(kernel_name="python3")
            self.manager.start_kernel(env=self.shop.environment, cwd=str(self.shop.folder))
        else:
            self.client.stop_channels()
            self.manager.restart_kernel(now=True)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)
        assert self._run(FIRST_CELL) == ""

    def pay(self, order: str, call_id: str) -> str:
        if not self.manager.is_alive():  # then Jupyter starts another kernel, and its user runs the cells again
            self.restart()
        return self._run(CELL.format(order=order, call_id=call_id))

    def _run(self, cell: str) -> str:
        sent, printed = self.client.execute(cell), ""
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, "the kernel does not answer"
            if not self.manager.is_alive():
                return ""
            if not self.client.iopub_channel.msg_ready():
                time.sleep(0.02)
                continue
            message = self.client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            assert message["msg_type"] != "error", content
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed += content["text"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed

    def close(self) -> None:
        if self.manager is not None:
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of a store of each kind, and of the broker of the tasks."""
    with ExitStack() as stack:
        port = stack.enter_context(redis())
        yield {
            "sqlite": str(tmp_path_factory.mktemp("sqlite")),
            "redis": f"redis://127.0.0.1:{port}/1",
            "broker": f"redis://127.0.0.1:{port}/2",
            "postgres": f"postgresql://tester@127.0.0.1:{stack.enter_context(postgres())}/postgres",
        }


@contextmanager
def opened(make: Callable[[Shop], Any], shop: Shop) -> Generator[Program]:
    program = make(shop)
    try:
        program.restart()
        yield program
    finally:
        program.close()


@pytest.mark.parametrize("make", [Web, Tasks, Agent, Notebook])
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_no_order_is_paid_twice(
    make: Callable[[Shop], Any], store: str, addresses: dict[str, str], tmp_path: Path
) -> None:
    """Killed in a body and started again, a program pays no order twice, and answers what it paid as it did then."""
    address = str(tmp_path / "shop.db") if store == "sqlite" else addresses[store]
    shop = Shop(tmp_path, {"SHOP_STORE": address, "SHOP_BROKER": addresses["broker"]})
    mine = f"{make.__name__}-{store}"  # the servers are shared
    paid, stuck, later = f"paid-{mine}", f"stuck-{mine}", f"later-{mine}"
    with opened(make, shop) as program, ThreadPoolExecutor(1) as thread:
        assert program.pay(paid, f"1-{mine}") == f"paid {paid}"
        assert program.pay(paid, f"1-{mine}") == f"paid {paid}"
        lost = thread.submit(program.pay, stuck, f"2-{mine}")
        wait_for(lambda: bool(shop.begun(stuck)), "the body begins")
        os.kill(shop.begun(stuck)[0], signal.SIGKILL)
        told = lost.result(PATIENCE)
        assert LOST in told or (make is not Tasks and told == "")
        assert LOST in program.pay(stuck, f"2-{mine}")
        program.restart()
        assert LOST in program.pay(stuck, f"2-{mine}")
        assert LOST in program.pay(stuck, f"3-{mine}")
        assert program.pay(paid, f"1-{mine}") == f"paid {paid}"
        assert program.pay(later, f"4-{mine}") == f"paid {later}"
    assert [len(shop.begun(order)) for order in (paid, stuck, later)] == [1, 1, 1]


def test_an_installed_wheel(tmp_path: Path) -> None:
    """The programs import the package from the environment, and not from this checkout."""
    program = "import toolcall_pipeline; print(toolcall_pipeline.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "site-packages" in done.stdout
