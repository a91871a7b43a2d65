"""AgentDojo's suites, each with its environment, and their functions as tools. Needs the package ``agentdojo``."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import attrs

from toolcall_pipeline import ToolRegistry

BENCHMARK = "v1.2.2"  # since v1 all have the same tools and environments; the tasks differ


def make_tools(suite: Any, environment: Any) -> ToolRegistry:
    """Register the suite's functions; what they take from the environment is filled in and hidden from the model."""
    tools = ToolRegistry()
    for function in suite.tools:
        taken = {name: wanted.extract_dep_from_env(environment) for name, wanted in function.dependencies.items()}
        tools.tool(name=function.name, reveal=ValueError)(partial(function.run, **taken))
    return tools


@attrs.frozen
class Dojo:
    """AgentDojo's suites, each with its environment as it is before any call.

    Args:
        suites: by name.
        environments: by the suite's name; copied for each replay.
        runtime: AgentDojo's class that runs functions.
    """

    suites: dict[str, Any]
    environments: dict[str, Any]
    runtime: Any

    @staticmethod
    def load() -> Dojo:
        """Load all suites. Raises ImportError if the package is missing."""
        runtime = import_module("agentdojo.functions_runtime").FunctionsRuntime
        suites = dict(import_module("agentdojo.task_suite.load_suites").get_suites(BENCHMARK))
        environments = {name: each.load_and_inject_default_environment({}) for name, each in suites.items()}
        return Dojo(suites, environments, runtime)

    def schemas(self) -> dict[tuple[str, str], Any]:
        """Our schema of every tool, by suite and name."""
        return {
            (name, each["name"]): each["parameters"]
            for name, suite in self.suites.items()
            for each in make_tools(suite, self.environments[name]).definitions()
        }
