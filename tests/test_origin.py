"""Tables of figures name the commit of the package that was measured."""

import json
import shutil
import subprocess

import pytest

from featherlane.tools import origin


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_tells_its_commit_and_whether_files_differ(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))  # no checkout around it

    def git(*words):
        named = ["-c", "user.name=x", "-c", "user.email=x@y"]
        done = ["git", "-C", str(tmp_path), *named, *words]
        return subprocess.run(done, check=True, capture_output=True, text=True).stdout.strip()

    assert origin.of_checkout(tmp_path) == origin.UNKNOWN
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--message", "first")
    name = git("rev-parse", "--short", "HEAD")
    assert origin.of_checkout(tmp_path) == name
    (tmp_path / "file").write_text("two")
    assert origin.of_checkout(tmp_path) == f"{name}+"


@pytest.mark.parametrize(
    ("written", "commit"),
    [
        (
            {"url": "https://host/x", "vcs_info": {"vcs": "git", "commit_id": "0123456789ab"}},
            "0123456",
        ),
        ({"url": "file:///folder", "dir_info": {}}, origin.UNKNOWN),
        (None, origin.UNKNOWN),
    ],
)
def test_an_installed_package_tells_the_commit_that_pip_took(
    written, commit, tmp_path, monkeypatch
):
    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return None if written is None else json.dumps(written)

    monkeypatch.setattr(origin, "__file__", str(tmp_path / "featherlane" / "tools" / "x.py"))
    monkeypatch.setattr(origin, "distribution", lambda name: Installed())
    assert origin.commit() == commit
