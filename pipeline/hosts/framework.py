"""Parts that the adapters of all frameworks share: a missing package, exported tools, and arguments before they run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import ref

from pydantic import ValidationError
from returns.result import Failure

from toolcall_pipeline.middlewares import Validate

from ..adapters.common import build_definitions, to_parts
from ..base.provider_names import OPENAI
from ..engine.call import Call, Outcome, ResolvedCall, ValidCall, make_uuid
from ..engine.compose import Pipeline
from ..engine.errors import InvalidParams, MalformedCall
from ..messages.parts import File, Image, find_media
from ..parameters.pydantic_errors import PydanticErrors
from ..tools import ToolView

_DEFAULT = Validate()


@contextmanager
def requires(package: str) -> Generator[None, None, None]:
    """Around the imports of a framework: an ImportError says which extra to install."""
    try:
        yield
    except ImportError as exc:
        told = f"this module needs {package}: pip install 'toolcall-pipeline[{package}]' ({exc})"
        raise ImportError(told, name=exc.name, path=exc.path) from exc


def list_offered(registry: ToolView) -> list[tuple[dict[str, Any], str]]:
    """``{"name", "description", "parameters"}`` of each tool that may be called now, and the tool's own name."""
    return list(zip(build_definitions(registry, OPENAI, "parameters"), registry.callable_names(), strict=True))


def list_media(outcome: Outcome[Any]) -> list[str | Image | File] | None:
    """The result of a tool as texts, images and PDF files, in order; None if it is text alone."""
    shown = [find_media(part) or str(part) for part in to_parts(outcome)]
    return None if all(isinstance(part, str) for part in shown) else shown


def foresee(pipeline: Pipeline, call: Call) -> ValidCall | None:
    """The call as the pipeline will run it: an approval or a guard has to judge this, and not what the model wrote.

    Args:
        pipeline: The return value of `Host.offer`. Its `Validate` is asked, or a default one where it has a check of
            its own in that place. Nothing is run or recorded.
        call: As the model sent it.

    Returns:
        The call with its tool and params; None if it is refused.
    """
    found: Any = pipeline.resolve(call)
    validate = next((stage.obj for stage in pipeline.entries if isinstance(stage.obj, Validate)), _DEFAULT)
    valid = validate(found) if isinstance(found, ResolvedCall) else None
    return valid if isinstance(valid, ValidCall) else None


def refuse_arguments(call: ValidCall, error: ValidationError) -> Failure[InvalidParams | MalformedCall]:
    """A refusal by the types of a tool's own function, which know more than its schema says, such as a validator."""
    params = dict(call.params)
    return Failure(PydanticErrors(call.tool.parameters.schema).convert(error, params, params))


class ObjectIds:
    """A text for each of the objects that it is asked about, as long as they live. None of them has an id itself."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], str]] = {}

    def find(self, held: object) -> str:
        """Return the text of an object; "" for one that cannot be followed."""
        found = self._known.get(id(held))
        if found is not None and found[0]() is held:
            return found[1]
        try:
            followed = ref(held, partial(self._forget, id(held)))
        except TypeError:
            return ""
        made = make_uuid()
        self._known[id(held)] = (followed, made)
        return made

    def _forget(self, key: int, _held: object) -> None:
        self._known.pop(key, None)
