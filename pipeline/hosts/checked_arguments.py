"""Arguments of a call of a framework: as they will run, and those that the types of a function refuse."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from returns.result import Failure

from toolcall_pipeline.middlewares import Validate

from ..call import Call, ResolvedCall, ValidCall
from ..compose import Pipeline
from ..errors import InvalidParams, MalformedCall
from ..parameters.pydantic_errors import PydanticErrors

_DEFAULT = Validate()


def foresee(pipeline: Pipeline, call: Call) -> ValidCall | None:
    """The call as the pipeline will run it: an approval or a guard has to judge this, and not what the model wrote.

    Args:
        pipeline: What `Host.offer` returned. Its `Validate` is asked, or a default one where it has a check of its own
            in that place. Nothing is run or recorded.
        call: As the model sent it.

    Returns:
        The call with its tool and params; None if it is refused.
    """
    found: Any = pipeline.resolve(call)
    validate = next((stage.obj for stage in pipeline.entries if isinstance(stage.obj, Validate)), _DEFAULT)
    valid = validate(found) if isinstance(found, ResolvedCall) else None
    return valid if isinstance(valid, ValidCall) else None


def refuse_arguments(call: ValidCall, error: ValidationError) -> Failure[InvalidParams | MalformedCall]:
    """A refusal by the types of a tool's own function, which know more than its schema says, such as a validator.

    Args:
        call: The call that the framework was handed.
        error: What pydantic found, as the framework raised it.
    """
    params = dict(call.params)
    return Failure(PydanticErrors(call.tool.parameters.schema).convert(error, params, params))
