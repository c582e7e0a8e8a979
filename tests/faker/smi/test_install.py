from __future__ import annotations

import os
import stat
import subprocess
import threading
from pathlib import Path

from nicrails_faker.smi import DATA, PROGRAM, write
from tests.faker.smi.shells import output, run
from tests.faker.smi.topologies import cut, whole


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def test_the_same_state_is_not_written_twice(tmp_path: Path) -> None:
    """Nothing is touched where nothing changes, so a script that others have mounted stays the same file."""
    write(tmp_path, cut())
    before = _files(tmp_path)
    write(tmp_path, cut())
    assert _files(tmp_path) == before
    program = (tmp_path / PROGRAM).stat().st_ino
    write(tmp_path, whole())
    assert (tmp_path / PROGRAM).stat().st_ino == program


def test_everybody_may_read_and_run_it(tmp_path: Path) -> None:
    """Containers run as any user: all may read, the script may be run, whatever the umask is."""
    folder = tmp_path / "made" / "deep"
    before = os.umask(0o077)
    try:
        write(folder, cut())
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / PROGRAM).stat().st_mode) == 0o755
    for path in (folder / DATA, *(folder / DATA).rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_a_damaged_script_is_written_anew(tmp_path: Path) -> None:
    """Contents and mode of the script are looked after."""
    write(tmp_path, whole())
    (tmp_path / PROGRAM).write_text("#!/bin/sh\n")
    write(tmp_path, whole())
    (tmp_path / PROGRAM).chmod(0o600)
    write(tmp_path, whole())
    assert output(tmp_path, "-L").startswith("GPU 0")


def test_what_a_crash_left_is_cleared_away(tmp_path: Path) -> None:
    """Half-written states, a link that leads nowhere and states of long ago go."""
    write(tmp_path, whole())
    data = tmp_path / DATA
    (data / ".new-state-x" / "slices").mkdir(parents=True)
    (data / ".new-current").symlink_to("nowhere")
    (data / "state-old").mkdir()
    (tmp_path / f".new-{PROGRAM}").write_text("half")
    write(tmp_path, cut())
    assert not list(tmp_path.glob(".new-*"))
    assert not list(data.glob(".new-*"))
    assert len(list(data.glob("state-*"))) == 2, "this one and the one before"
    (data / "current").unlink()
    (data / "current").symlink_to("state-gone")
    write(tmp_path, cut())
    assert output(tmp_path, "-L").count("MIG") > 0


def test_a_mounted_folder_shows_the_change(tmp_path: Path) -> None:
    """What a running container has mounted is the folder, and the link in it leads to the new state."""
    write(tmp_path, whole())
    # A bind mount keeps the folder itself, as an open descriptor does.
    folder = os.open(tmp_path / DATA, os.O_RDONLY)
    try:
        mounted = Path(f"/proc/self/fd/{folder}")
        before = (mounted / "current").readlink()
        write(tmp_path, cut())
        assert (mounted / "current").readlink() != before
        assert (mounted / "current" / "slices" / "0").is_file()
    finally:
        os.close(folder)
    assert not (tmp_path / DATA / "current").readlink().is_absolute()


def test_a_change_is_never_seen_by_halves(tmp_path: Path) -> None:
    """While states alternate, every run shows one of them whole."""
    topologies = (whole(), cut())
    wanted = set()
    for topology in topologies:
        write(tmp_path, topology)
        wanted.add(output(tmp_path, "-L"))
    ended = threading.Event()

    def alternate() -> None:
        turn = 0
        while not ended.is_set():
            write(tmp_path, topologies[turn % 2])
            turn += 1

    writer = threading.Thread(target=alternate)
    writer.start()
    try:
        done = [run(tmp_path, "-L") for _ in range(40)]
    finally:
        ended.set()
        writer.join()
    assert {one.stdout for one in done} <= wanted
    assert {(one.returncode, one.stderr) for one in done} == {(0, "")}


def test_it_finds_its_files_from_anywhere(tmp_path: Path) -> None:
    """The files beside the script are found by an absolute or relative path and over PATH."""
    write(tmp_path, whole())
    wanted = output(tmp_path, "-L")
    for words, folder in (
        (["./nvidia-smi", "-L"], tmp_path),
        ([f"../{tmp_path.name}/nvidia-smi", "-L"], tmp_path),
        (["/bin/sh", "-c", "nvidia-smi -L"], Path("/")),
    ):
        done = subprocess.run(
            words, cwd=folder, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stdout == wanted
