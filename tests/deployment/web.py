"""A web application, as in DEPLOYMENT: one turn of a model in each request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import JSONResponse

from shop import open_store, tools
from toolcall_pipeline import gather
from toolcall_pipeline.adapters import openai
from toolcall_pipeline.middlewares import standard

pipeline = standard(tools, timeout=600, store=open_store())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with pipeline:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/turn")
async def take_turn(request: Request, reply: Annotated[dict[str, Any], Body()]) -> JSONResponse:
    calls = openai.calls(reply, pipeline, principal="mara", conversation=request.headers["x-thread"])
    outcomes = await gather(pipeline, calls)
    return JSONResponse([openai.message(call, outcome) for call, outcome in zip(calls, outcomes, strict=True)])
