"""What a run of the tests leaves out, and what it costs: two paragraphs below its results.

Costs are seconds of processor time, of the processes that tests start too: other load on the
machine does not change them much. They are shown and never asserted.
"""

import os
import time
from collections import Counter

import pytest

BUDGET = 540  # seconds of a run without --full (docs/dev/rules.md)
DEAREST = 10  # files that are named when more have run


def processor_seconds():
    """Of this process and of all that it has waited for."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


class Summary:
    """A plugin of pytest. With pytest-xdist, workers count and the main process sums up."""

    def __init__(self):
        self.left_out, self.costs = 0, Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        """Leaves repetitions out unless they are asked for: by --full, -m full or a test's name."""
        named = any("::" in argument for argument in config.args)
        if config.option.full or named or "full" in config.option.markexpr:
            return
        left = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left)
        self.left_out = len(left)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        self._before = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        finally:
            item.user_properties.append(("processor_s", processor_seconds() - self._before))

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            file = report.nodeid.partition("::")[0]
            self.costs[file] += dict(report.user_properties).get("processor_s", 0.0)

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = self.left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        told = getattr(node, "workeroutput", {})  # a worker that has crashed says nothing
        self.left_out = max(self.left_out, told.get("left_out", 0))

    def pytest_terminal_summary(self, terminalreporter):
        if self.left_out:
            told = "more robots, seeds and dtypes of what has run: --full runs them"
            terminalreporter.line(f"{self.left_out:,} tests were left out, {told}")
        if len(self.costs) > DEAREST:
            for line in self._told():
                terminalreporter.line(line)

    def _told(self):
        dearest = ", ".join(f"{file} {s:.0f}" for file, s in self.costs.most_common(DEAREST))
        total = self.costs.total()
        yield f"{total:.0f} s of processor time; the dearest files: {dearest}"
        if self.left_out and total > BUDGET:
            yield f"a run without --full may take {BUDGET} s: mark repetitions (docs/dev/rules.md)"
