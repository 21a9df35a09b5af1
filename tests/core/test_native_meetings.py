"""Meetings of a crew without the interpreter: compiled where there is a compiler, and once."""

import re

import pytest

from fedloom.rounds import native_meetings
from fedloom.rounds.crew import Crew
from fedloom.rounds.meetings import Meetings

attempt = native_meetings._attempt.__wrapped__


def made_anew():
    return attempt().library


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr("jax.ffi.register_ffi_target", lambda *_, **__: None)  # it takes only one
    return tmp_path / "programs"


def compilers(monkeypatch, folder, script):
    """A compiler of ours in the place of the system's."""
    path = folder.parent / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
def test_the_source_is_compiled_once(folder):
    assert made_anew() is not None
    (made,) = folder.iterdir()
    written = made.stat().st_mtime_ns
    assert made_anew() is not None
    assert list(folder.iterdir()) == [made] and made.stat().st_mtime_ns == written
    assert made.stat().st_mode & 0o044 == 0o044  # as the programs beside it, for a shared folder


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("left", [lambda b: b"", lambda b: b"text", lambda b: b[:4096]])
def test_a_damaged_library_is_compiled_again(folder, left):
    """Loading one that was cut short would end the process."""
    assert made_anew() is not None
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.unlink()  # this process goes on with what it has loaded
    path.write_bytes(left(whole))
    assert made_anew() is not None
    assert [kept.read_bytes() for kept in folder.iterdir()] == [whole]


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
def test_a_library_that_does_not_load_is_compiled_again(folder, monkeypatch):
    assert made_anew() is not None
    load, refused = native_meetings._loaded, []

    def once_refused(path):
        if not refused:
            refused.append(path)
            raise OSError("made for another machine")
        return load(path)

    monkeypatch.setattr(native_meetings, "_loaded", once_refused)
    assert made_anew() is not None
    assert refused[0].parent == folder


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
def test_what_jax_does_not_take_is_left(folder, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("another version of the interface")

    monkeypatch.setattr("jax.ffi.register_ffi_target", refused)
    assert made_anew() is None
    assert list(folder.iterdir())
    assert "another version of the interface" in attempt().hindrance


def test_without_a_compiler_members_meet_in_python(folder, monkeypatch):
    for told in ("no-such-compiler", "", " ", "c++ '"):
        monkeypatch.setenv("CXX", told)
        assert native_meetings.compiler() is None
        assert made_anew() is None
        assert "a C++ compiler helps" in attempt().hindrance
    monkeypatch.setattr(native_meetings, "library", made_anew)
    assert isinstance(Crew(2)._meetings, Meetings)
    assert not folder.exists()


OTHERWISE = "echo 'int other;' | c++ -x c++ -shared -fPIC -o $9 -"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'no header' >&2; exit 1", "does not compile meeting.cc: no header"),
        ("exit 0", "can not be kept or loaded: .*No such file"),
        ("echo > $9", "can not be kept or loaded: "),
        (OTHERWISE, "can not be kept or loaded: .*fedloom_meet"),
    ],
)
def test_what_does_not_compile_is_left(folder, monkeypatch, script, told):
    """A compiler that fails, that writes nothing, or no library, or another one."""
    compilers(monkeypatch, folder, script)
    made, hindrance = attempt()
    assert made is None and re.search(told, hindrance)
    assert not list(folder.iterdir())


def test_on_a_mac_the_compiler_has_to_be_named(monkeypatch):
    """There c++ may be a program that opens a window."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.delenv("CXX", raising=False)
    assert native_meetings.compiler() is None
    monkeypatch.setenv("CXX", "sh")
    assert native_meetings.compiler() == ["sh"]


def test_a_compiler_that_does_not_end_is_not_waited_for(folder, monkeypatch):
    compilers(monkeypatch, folder, "exec sleep 60")
    monkeypatch.setattr(native_meetings, "_SECONDS", 0.2)
    assert "in 0.2 seconds" in attempt().hindrance
    assert not list(folder.iterdir())


def test_without_a_cache_folder_nothing_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDLOOM_CACHE", "off")
    compilers(monkeypatch, tmp_path / "programs", f"touch {tmp_path}/called")
    assert made_anew() is None
    assert not (tmp_path / "called").exists()


def test_a_folder_that_cannot_be_written_is_left(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path / "file"))
    assert made_anew() is None
