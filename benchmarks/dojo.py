"""AgentDojo's suites, each with its environment, and their functions as tools of ours. Needs the package of it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import attrs

from pipeline import ToolRegistry

BENCHMARK = "v1.2.2"  # all since v1 have the same tools and the same environments, and other tasks


def tools_of(suite: Any, environment: Any) -> ToolRegistry:
    """The suite's functions as tools; what they take from the environment is filled, and not the model's to see."""
    tools = ToolRegistry()
    for function in suite.tools:
        taken = {name: wanted.extract_dep_from_env(environment) for name, wanted in function.dependencies.items()}
        tools.tool(name=function.name, reveal=ValueError)(partial(function.run, **taken))
    return tools


@attrs.frozen
class Dojo:
    """AgentDojo's suites, each with its environment as it is before any call."""

    suites: dict[str, Any]
    environments: dict[str, Any]
    runtime: Any

    @staticmethod
    def load() -> Dojo:
        """Raises ImportError where the package is missing."""
        runtime = import_module("agentdojo.functions_runtime").FunctionsRuntime
        suites = dict(import_module("agentdojo.task_suite.load_suites").get_suites(BENCHMARK))
        return Dojo(
            suites, {name: each.load_and_inject_default_environment({}) for name, each in suites.items()}, runtime
        )

    def schemas(self) -> dict[tuple[str, str], Any]:
        """Our schema of every tool, by suite and name."""
        return {
            (name, each["name"]): each["parameters"]
            for name, suite in self.suites.items()
            for each in tools_of(suite, self.environments[name]).definitions()
        }
