"""Tasks of Celery, as in DEPLOYMENT: the task's own id is the id of the call."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from shop import open_store, tools
from toolcall_pipeline import render
from toolcall_pipeline.middlewares import standard

pipeline = standard(tools, timeout=600, store=open_store())
broker = os.environ["SHOP_BROKER"]
app = Celery("shop", broker=broker, backend=broker)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)  # a task whose worker died is delivered again
def pay_order(self: Any, order: str) -> str:
    """Pay, and return what a model would be told."""
    return render(pipeline.call_sync("pay", {"order": order}, id=self.request.id, conversation="orders"))
