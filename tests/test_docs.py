"""The documents of docs/ run as they stand."""

import pytest
from documents import ROOT, run

PAGES = (
    "tour",
    "links",
    "accuracy",
    "conventions",
    "frames",
    "identification",
    "lathrop",
    "processors",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_document_runs(page):
    run(ROOT / "docs" / f"{page}.md")
