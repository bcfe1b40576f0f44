"""The end of a run, below pytest's results: what was not run and why, and where failures go.

With --costs, for those who write tests, also the processor time of the dearest files, of the
processes that tests start too. Costs are shown and never asserted.
"""

import os
import re
import time
from collections import Counter

import pytest
from documents import ROOT

BUDGET = 540  # seconds of a run without --full (docs/dev/rules.md)
DEAREST = 10  # files that are named
REASONS = 15  # that are listed, the most frequent ones


def processor_seconds():
    """Of this process and of all that it has waited for."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


def reason_of(report):
    """Why a test was skipped, in its own words."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ").splitlines()[0]


def place_for_reports():
    return re.search(r'^Issues = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]


def counted(number, what):
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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

    def pytest_terminal_summary(self, terminalreporter, config):
        for line in [*self._told(terminalreporter.stats), *self._costs(config.option.costs)]:
            terminalreporter.line(line)

    def _told(self, stats):
        """For the reader: what held, what this machine could not run, and what to do next."""
        passed, skipped = len(stats.get("passed", ())), stats.get("skipped", ())
        failed = len(stats.get("failed", ())) + len(stats.get("error", ()))
        yield f"tests: {passed} passed, {failed} failed, {len(skipped)} skipped"
        reasons = Counter(map(reason_of, skipped)).most_common()
        for reason, count in reasons[:REASONS]:
            yield f"  {count:,} skipped: {reason}"
        if rest := sum(count for _, count in reasons[REASONS:]):
            yield f"  {rest:,} skipped for other reasons: -rs lists them"
        if self.left_out:
            more = "the same with more robots, seeds and dtypes"
            yield f"{counted(self.left_out, 'repetition')}, {more}, are run by --full"
        if failed:
            told = "with the failure above and the output of `featherlane info --system`"
            yield f"a failure is a bug, of the package or its tests: {place_for_reports()},"
            yield told

    def _costs(self, wanted):
        """For those who write tests: processor time."""
        if not wanted:
            return
        dearest = ", ".join(f"{file} {s:.0f}" for file, s in self.costs.most_common(DEAREST))
        total = self.costs.total()
        yield f"{total:.0f} s of processor time; the dearest files: {dearest}"
        if self.left_out and total > BUDGET:
            yield f"a run without --full may take {BUDGET} s: mark repetitions (docs/dev/rules.md)"
