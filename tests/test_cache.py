"""The cache of compiled code: what it trusts, what its keys hold, and how large it grows."""

import compileall
import os
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from processes import finished, python
from repetition import full, repeated

import featherlane as fl
from featherlane.backends import cache, package_text
from featherlane.backends.cpu import linked
from featherlane.backends.cpu.call import cpython, vectorcall

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


def code_of(n):
    """A function that no other test compiles."""
    made = fl.compile(lambda x: [x[0] * float(n) + x[1]], {"x": 2})
    return made(np.array([2.0, 3.0]))[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    code_of(1)  # the front of all functions, which would be an entry too
    path = tmp_path / "cache"
    monkeypatch.setenv("FEATHERLANE_CACHE", str(path))
    return path


def entries(folder):
    return sorted(folder.glob("*.code"))


def test_the_cache_is_used(folder, monkeypatch):
    assert code_of(100) == 203
    (entry,) = entries(folder)
    if os.name == "posix":
        assert folder.stat().st_mode & 0o077 == 0
    assert {*folder.iterdir()} == {entry, folder / cache.PRUNED}
    again = lambda *args: pytest.fail("compiled again")
    monkeypatch.setattr("featherlane.backends.cpu.compile.lower", again)
    assert code_of(100) == 203


def damages():
    yield "empty", lambda code: b""
    yield "truncated", lambda code: code[:-1]
    yield "the head alone", lambda code: code[:90]
    yield "one bit", lambda code: code[:-100] + bytes([code[-100] ^ 1]) + code[-99:]
    yield "another digest", lambda code: code.replace(code[20:30], b"0" * 10, 1)
    yield "another format", lambda code: b"featherlane code 0" + code[18:]
    yield "another Python", lambda code: code.replace(b"cpython 3", b"cpython 2", 1)
    yield "another key", lambda code: code.replace(b'"key": "', b'"key": "-', 1)
    yield "longer", lambda code: code + b"\0"
    yield "not text", lambda code: bytes(range(256)) * 9


@pytest.mark.parametrize(("what", "damage"), [*damages()])
def test_a_damaged_entry_is_compiled_again(folder, what, damage):
    assert code_of(101) == 205
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert code_of(101) == 205
    assert entry.read_bytes()[:19] == whole[:19]
    assert is_whole(entry)


def is_whole(entry):
    with cache._Folder(entry.parent) as opened:
        header = entry.read_bytes().split(b"\n")[1]
        return opened.read_code(entry.name, header) is not None


def counted(folder, key="key"):
    made = []

    def make():
        made.append(1)
        return b"code"

    assert cache.fetch(key, make) == b"code"
    return len(made)


@posix
@pytest.mark.filterwarnings("ignore:.*can be written by other users")
@pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are those of POSIX")
class TestForeignEntries:
    def test_of_another_owner(self, folder, monkeypatch):
        assert [counted(folder), counted(folder)] == [1, 0]
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert counted(folder) == 1

    @pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
    def test_that_others_may_write(self, folder, mode):
        assert counted(folder) == 1
        entries(folder)[0].chmod(mode)
        assert counted(folder) == 1
        assert counted(folder) == 0  # it was written anew

    @pytest.mark.parametrize("mode", [0o777, 0o730])
    def test_in_a_folder_that_others_may_write(self, folder, mode):
        folder.mkdir()
        folder.chmod(mode)
        assert [counted(folder), counted(folder)] == [1, 1]
        assert not list(folder.iterdir())

    def test_that_is_a_link(self, folder, tmp_path):
        assert counted(folder) == 1
        (entry,) = entries(folder)
        away = tmp_path / "away"
        entry.rename(away)
        entry.symlink_to(away)
        assert counted(folder) == 1
        assert not entry.is_symlink()
        assert counted(folder) == 0

    def test_that_is_a_fifo(self, folder):
        assert counted(folder) == 1
        (entry,) = entries(folder)
        entry.unlink()
        os.mkfifo(entry, 0o600)
        assert [counted(folder), counted(folder)] == [1, 0]

    def test_parents_are_for_the_user_alone(self, tmp_path, monkeypatch):
        inner = tmp_path / "one" / "two" / "cache"
        monkeypatch.setenv("FEATHERLANE_CACHE", str(inner))
        assert counted(inner) == 1
        assert all(p.stat().st_mode & 0o077 == 0 for p in (inner, *inner.parents[:2]))

    def test_of_a_folder_that_was_exchanged_after_the_check(self, folder, tmp_path, monkeypatch):
        """What was checked is what is read: an attacker's folder of the same name is not."""
        assert counted(folder) == 1
        opened = cache._Folder(folder)
        (entry,) = entries(folder)
        header = entry.read_bytes().split(b"\n")[1]
        folder.rename(tmp_path / "away")
        folder.mkdir()
        (folder / entry.name).write_bytes(b"another's")
        with opened:
            assert opened.read_code(entry.name, header) == b"code"


def test_a_folder_that_cannot_be_written(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("read-only")

    monkeypatch.setattr(cache._Folder, "write", refuse)
    assert [counted(folder), counted(folder)] == [1, 1]
    assert code_of(102) == 207


def test_a_file_in_the_place_of_the_folder(folder):
    folder.write_text("in the way")
    assert [counted(folder), counted(folder)] == [1, 1]


def test_a_disk_that_is_full(folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert counted(folder) == 1
    assert not list(folder.iterdir())


def test_no_home(monkeypatch):
    def none():
        raise RuntimeError("Could not determine home directory.")

    for name in ("FEATHERLANE_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", none)
    assert cache.folder() is None
    assert cache.fetch("key", lambda: b"code") == b"code"


def test_the_cache_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("FEATHERLANE_CACHE", "off")
    assert cache.folder() is None
    assert code_of(103) == 209


def test_a_home_that_cannot_be(tmp_path):
    code = "import featherlane as fl; print(fl.load('double_pendulum').mass_matrix([0, 0]).shape)"
    nowhere = str(tmp_path / "file" / "home")
    (tmp_path / "file").write_text("")
    process = python(code, FEATHERLANE_CACHE=None, XDG_CACHE_HOME=None, HOME=nowhere)
    assert finished(process) == "(2, 2)\n"


@full
def test_processes_that_race(folder):
    code = """
    import numpy as np
    import featherlane as fl
    model = fl.load("double_pendulum")
    print(model.inverse_dynamics_derivatives(*np.ones((3, 2))).dtau_dq.tobytes().hex())
    """
    answers = {finished(p) for p in [python(code) for _ in range(4)]}
    assert len(answers) == 1
    found = entries(folder)
    assert len(found) == 3  # of the function, of the front of all functions and of its test
    assert all(map(is_whole, found))


def test_the_oldest_entries_go_first(folder, monkeypatch):
    monkeypatch.setattr(cache, "PRUNED_EVERY_BYTES", 0)
    assert counted(folder, "key 0") == 1
    size = entries(folder)[0].stat().st_size
    monkeypatch.setattr(cache, "MOST_BYTES", 2 * size)
    for k in (1, 2):
        for entry in entries(folder):
            os.utime(entry, (0, entry.stat().st_mtime - 10))
        counted(folder, f"key {k}")
    assert [counted(folder, f"key {k}") for k in (2, 1)] == [0, 0]
    assert counted(folder, "key 0") == 1


def test_code_of_another_key_is_not_taken(folder, monkeypatch):
    """Two entries whose files were exchanged: each is compiled again."""
    monkeypatch.setenv("FEATHERLANE_CACHE", str(folder))
    assert cache.fetch("one", lambda: b"1") == b"1"
    (first,) = folder.glob("*.code")
    assert cache.fetch("two", lambda: b"2") == b"2"
    (second,) = set(folder.glob("*.code")) - {first}
    text = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(text)
    assert cache.fetch("one", lambda: b"again") == b"again"
    assert cache.fetch("two", lambda: b"again") == b"again"


def test_a_write_lists_the_folder_once_an_hour(folder, monkeypatch):
    listed = []
    monkeypatch.setattr(cache._Folder, "prune", lambda self: listed.append(1))
    folder.mkdir(0o700)
    counted(folder, "key 0")
    assert listed == [1]
    (folder / cache.PRUNED).write_text("")
    for k in range(1, 9):
        assert counted(folder, f"key {k}") == 1
    assert listed == [1]
    long_ago = time.time() - cache.PRUNED_EVERY_SECONDS - 1
    os.utime(folder / cache.PRUNED, (long_ago, long_ago))
    counted(folder, "key 9")
    assert listed == [1, 1]


def test_many_bytes_are_pruned_at_once(folder, monkeypatch):
    monkeypatch.setattr(cache, "MOST_BYTES", 10_000)
    monkeypatch.setattr(cache, "PRUNED_EVERY_BYTES", 5_000)
    for k in range(20):
        cache.fetch(f"key {k}", lambda: b"1" * 2_000)
    assert sum(entry.stat().st_size for entry in entries(folder)) <= 15_000 + 3 * 1_000


def test_files_of_killed_writers_are_deleted(folder, monkeypatch):
    counted(folder)
    old, new = folder / "a.code.1.part", folder / "b.code.2.part"
    for part in (old, new):
        part.write_bytes(b"half of it")
    long_ago = time.time() - cache.ABANDONED - 1
    os.utime(old, (long_ago, long_ago))
    monkeypatch.setattr(cache, "PRUNED_EVERY_BYTES", 0)
    counted(folder, "key 2")
    assert not old.exists()
    assert new.exists()


def test_the_summary_and_the_limit(folder):
    assert cache.summary() == (folder, 0, 0, 0, cache.MOST_BYTES)
    counted(folder, "one")
    counted(folder, "two")
    entry = entries(folder)[0]
    entry.write_bytes(entry.read_bytes().replace(b"cpython 3", b"cpython 2", 1))
    os.utime(entry, (0, 0))
    size = sum(entry.stat().st_size for entry in entries(folder))
    assert cache.summary() == (folder, 2, 1, size, cache.MOST_BYTES)
    cache.set_limit(size - 1)
    assert cache.summary()[1:] == (1, 1, size // 2, size - 1)
    assert cache.clear() == 1
    assert cache.summary()[1:] == (0, 0, 0, size - 1)


def test_parents_of_a_limit_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATHERLANE_CACHE", str(tmp_path / "one" / "two"))
    cache.set_limit(1000)
    if os.name == "posix":
        assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700


def test_a_home_that_nobody_has(monkeypatch):
    monkeypatch.setenv("FEATHERLANE_CACHE", "~nobody has this name/cache")
    assert counted(None) == 1


def test_a_package_that_is_replaced_meanwhile(folder, monkeypatch):
    """Its hash is not that of the code which runs: nothing is written, and nothing read."""
    assert package_text.last_change() <= cache._IMPORTED
    monkeypatch.setattr(package_text, "last_change", lambda: cache._IMPORTED + 1)
    assert counted(folder) == 1
    assert not folder.exists() or not entries(folder)
    monkeypatch.undo()
    monkeypatch.setenv("FEATHERLANE_CACHE", str(folder))
    assert [counted(folder), counted(folder)] == [1, 0]
    monkeypatch.setattr(cache, "_was_replaced", lambda: True)
    assert counted(folder) == 1


def test_the_command(folder):
    run = lambda *words, **env: python("from featherlane.tools.cli import main; main()", *words)
    counted(folder)
    told = finished(run("cache"))
    assert "entries  1, of which this installation can use 1" in told
    assert str(folder) in told
    assert "deleted  1" in finished(run("cache", "--clear", "--limit", "2M"))
    assert "of at most 2.0 MB" in finished(run("cache"))


# Keys


@pytest.mark.parametrize("fact", ["package", "python", "machine", "numpy", "llvmlite"])
def test_code_made_from_other_facts_is_not_taken(folder, monkeypatch, fact):
    assert counted(folder) == 1
    others = {**cache.facts(), fact: "another one"}
    monkeypatch.setattr(cache, "facts", lambda: others)
    assert [counted(folder), counted(folder)] == [1, 0]
    monkeypatch.undo()


def test_the_layout_of_python_objects_is_in_the_key(folder):
    """The entry point holds the layout of tuples, which Python 3.14 changed."""
    text, at = vectorcall.source(), f"ptr %out, i64 {cpython.PyTupleObject.OB_ITEM}"
    assert at in text
    linked.loaded_text(text, ("call",))
    linked.loaded_text(text.replace(at, "ptr %out, i64 40"), ("call",))
    assert len(entries(folder)) == 2


CODE = """
import featherlane as fl
assert fl.__file__.startswith({copy!r}), fl.__file__
fl.load("double_pendulum").mass_matrix([0.1, 0.2])
"""


@pytest.fixture
def names_of(tmp_path):
    """names_of(): computes with the copy of the package in tmp_path; what its cache holds then."""
    source, copy = Path(fl.__file__).parent, tmp_path / "featherlane"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    place = tmp_path / "cache"
    place.mkdir(mode=0o700)

    def run(where=copy):
        code, path = CODE.format(copy=str(where)), str(where.parent if where is copy else where)
        finished(python(code, FEATHERLANE_CACHE=str(place), PYTHONPATH=path, PYTHONSAFEPATH="1"))
        return {file.name for file in entries(place)}

    return run


@pytest.mark.parametrize("file", repeated(["algorithms/rnea.py", "algorithms/scan/lists.py"]))
def test_code_is_compiled_anew_after_a_change_of_an_algorithm(file, names_of, tmp_path):
    first = names_of()
    assert first
    assert names_of() == first
    with (tmp_path / "featherlane" / file).open("a") as text:
        text.write("# another version\n")
    second = names_of()
    assert second > first
    assert len(second) == 2 * len(first)


def test_a_package_in_a_zip_file_has_the_same_key(names_of, tmp_path):
    first = names_of()
    packed = tmp_path / "package.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (tmp_path / "featherlane").rglob("*"):
            archive.write(file, file.relative_to(tmp_path))
    assert names_of(packed) == first


@full
def test_a_package_without_its_text_has_the_key_of_its_code(names_of, tmp_path):
    """As in frozen programs: the hash is the same in each process, and changes with the code."""
    copy = tmp_path / "featherlane"
    program = "from featherlane.backends.package_text import package_hash as f; print(f())"

    def hashes():
        compileall.compile_dir(copy, quiet=2, legacy=True)
        for file in copy.rglob("*.py"):
            file.unlink()
        return {
            finished(
                python(
                    program, PYTHONPATH=str(tmp_path), PYTHONHASHSEED=str(seed), PYTHONSAFEPATH="1"
                )
            )
            for seed in (1, 2)
        }

    first = hashes()
    assert len(first) == 1
    assert first != {package_text.package_hash() + "\n"}
    source = Path(fl.__file__).parent / "algorithms" / "rnea.py"
    (copy / "algorithms" / "rnea.py").write_text(source.read_text() + "\nADDED = 1\n")
    assert hashes() != first
