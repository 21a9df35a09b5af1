"""Meetings of a crew without the interpreter: compiled where there is a compiler, and once."""

import pytest

from fedloom.rounds import native_meetings
from fedloom.rounds.crew import Crew
from fedloom.rounds.meetings import Meetings

made_anew = native_meetings.library.__wrapped__


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_CACHE", str(tmp_path))
    return tmp_path / "programs"


def compilers(monkeypatch, folder, script):
    """A compiler of ours in the place of the system's."""
    path = folder.parent / "c++"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
def test_the_source_is_compiled_once(folder):
    made = native_meetings._made(folder, native_meetings.compiler())
    written = made.stat().st_mtime_ns
    assert native_meetings._made(folder, native_meetings.compiler()) == made
    assert list(folder.iterdir()) == [made] and made.stat().st_mtime_ns == written
    assert made.stat().st_mode & 0o044 == 0o044  # as the programs beside it, for a shared folder


@pytest.mark.skipif(native_meetings.compiler() is None, reason="there is no C++ compiler")
def test_what_jax_does_not_take_is_left(folder, monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("another version of the interface")

    monkeypatch.setattr("jax.ffi.register_ffi_target", refused)
    assert made_anew() is None
    assert list(folder.iterdir())


def test_without_a_compiler_members_meet_in_python(folder, monkeypatch):
    for told in ("no-such-compiler", "", " ", "c++ '"):
        monkeypatch.setenv("CXX", told)
        assert native_meetings.compiler() is None
        assert made_anew() is None
    monkeypatch.setattr(native_meetings, "library", made_anew)
    assert isinstance(Crew(2)._meetings, Meetings)
    assert not folder.exists()


OTHERWISE = "echo 'int other;' | c++ -x c++ -shared -fPIC -o $9 -"


@pytest.mark.parametrize(
    "script", ["echo 'no header' >&2; exit 1", "exit 0", "echo > $9", OTHERWISE]
)
def test_what_does_not_compile_is_left(folder, monkeypatch, script):
    """A compiler that fails, that writes nothing, or no library, or another one."""
    compilers(monkeypatch, folder, script)
    assert made_anew() is None
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
    assert made_anew() is None
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
