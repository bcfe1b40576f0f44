"""Robot files that do not come with the package: from a folder, or from example-robot-data."""

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

VARIABLE = "FEATHERLANE_TEST_ROBOTS"
PACKAGE = "example-robot-data"


def examples():
    """The folder of example-robot-data's robots, or None where that package is not installed."""
    try:
        return Path(
            distribution(PACKAGE).locate_file("cmeel.prefix/share/example-robot-data/robots")
        )
    except PackageNotFoundError:
        return None


def robot_file(name, example=None):
    """The file of this name in the folder that $FEATHERLANE_TEST_ROBOTS names; else, where example
    is given, the file of example-robot-data at that path. Skips the test where there is neither.
    """
    folder, package = os.environ.get(VARIABLE), examples()
    places = [Path(folder, name)] if folder else []
    if example and package:
        places.append(package / example)
    for place in places:
        if place.exists():
            return place
    wanted = f"needs {name} in the folder that {VARIABLE} names"
    pytest.skip(wanted + f", or the package {PACKAGE}" * (example is not None))
