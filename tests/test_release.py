"""A release could be made of the files as they are: docs/dev/release.md."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest
from documents import ROOT

import featherlane

PATH = ROOT / "packaging" / "release.py"
spec = importlib.util.spec_from_file_location("release", PATH)
release = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release)
ADDRESSES = {
    "repository": "https://host/owner/featherlane/",
    "documentation": "https://owner.host/featherlane",
    "security": "security@host",
}


@pytest.fixture
def copied(tmp_path):
    """The files that a release is about, as they are."""
    for file in (*release.ADDRESSED, *release.INSTALLED, "CHANGELOG.md", "featherlane/version.py"):
        if (ROOT / file).exists():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_placeholders_stand_against_a_release(copied):
    assert release.version(copied) == featherlane.__version__
    changed = release.address(ADDRESSES, copied)
    assert "pyproject.toml" in changed
    release.install(copied)
    assert list(release.obstacles(f"v{featherlane.__version__}", copied)) == []
    project = tomllib.loads((copied / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Issues"] == "https://host/owner/featherlane/issues"
    (copied / "SECURITY.md").write_text("Write to security@OWNER.example\n", encoding="utf-8")
    assert len(list(release.obstacles(None, copied))) == 1


def test_documents_install_from_a_clone_until_there_is_a_release(copied):
    release.address(ADDRESSES, copied)
    here = [*release.INSTALLED]
    found = list(release.obstacles(None, copied))
    assert found == [
        f"{x}: it installs from a clone: python packaging/release.py install" for x in here
    ]
    assert release.install(copied) == here
    assert list(release.obstacles(None, copied)) == []
    for file in here:
        text = (copied / file).read_text(encoding="utf-8")
        assert "pip install featherlane" in text
        assert "clone of this repository installs" not in text
        assert "git clone" not in text
    assert release.install(copied) == []


def test_versions_that_differ_stand_against_a_release(copied):
    release.address(ADDRESSES, copied)
    release.install(copied)
    found = list(release.obstacles("v0.0.1", copied))
    assert found == [
        f"the tag is v0.0.1, the package is {featherlane.__version__}: wanted v"
        f"{featherlane.__version__}"
    ]
    file = copied / "featherlane" / "version.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(featherlane.__version__, "9.8.7"), encoding="utf-8")
    words = " ".join(release.obstacles(None, copied))
    assert all(name in words for name in ("CHANGELOG.md", "CITATION.cff", "recipe.yaml"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist that the build backend makes here, twice, under other umasks."""
    for name in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install '.[release]'")
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for folder, umask in zip(folders, (0o022, 0o077), strict=True):
        asked = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
        clock = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        mode = {"umask": umask} if os.name == "posix" else {}
        subprocess.run(asked, check=True, cwd=ROOT, env=clock, capture_output=True, **mode)
    return [sorted(folder.iterdir()) for folder in folders]


def test_two_builds_give_the_same_bytes(built):
    first, second = ([hashlib.sha256(file.read_bytes()).digest() for file in f] for f in built)
    assert len(first) == 2
    assert first == second


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = (file for file in built[0] if file.suffix == ".whl")
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = files.read(metadata).decode()
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"featherlane", f"featherlane-{featherlane.__version__}.dist-info"}
    package = ROOT / "featherlane"
    wanted = {f"featherlane/{file.relative_to(package).as_posix()}" for file in _sources(package)}
    assert wanted == {name for name in names if name.startswith("featherlane/")}
    head = HeaderParser().parsestr(text)
    assert head["Version"] == featherlane.__version__
    assert head.get_all("License-File") == ["LICENSE", "NOTICE"]
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert len(links) > 20
    assert [link for link in links if "://" not in link] == []
    assert f"/raw/v{featherlane.__version__}/docs/many_robots.svg" in text


def test_the_sdist_holds_what_the_tests_read(built):
    (sdist,) = (file for file in built[0] if file.suffix == ".gz")
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    for folder in ("featherlane", "tests", "docs", "examples", "benchmarks", "packaging"):
        missing = {f.relative_to(ROOT).as_posix() for f in _sources(ROOT / folder)} - names
        assert missing == set()
    for name in ("CHANGELOG.md", "CITATION.cff", "README.md", "SECURITY.md", "pyproject.toml"):
        assert name in names


def _sources(folder: Path):
    """Files of a folder, without what tools leave behind."""
    left = ("__pycache__", ".hypothesis", ".pytest_cache")
    files = (file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if not any(part in left for part in file.parts)]
