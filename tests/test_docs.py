"""The documents of docs/ run as they stand."""

import pytest
from documents import ROOT, run


@pytest.mark.parametrize(
    "name", ["tour.md", "conventions.md", "frames.md", "identification.md", "lathrop.md"]
)
def test_the_code_of_a_document_runs(name):
    run(ROOT / "docs" / name)
