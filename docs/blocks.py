"""Parts of a page that a program writes: what lies between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_BLOCK = re.compile(r"(<!-- begin ([a-z-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """The page with each block written anew. Raises ValueError unless page and blocks have the same names."""
    names = [found[2] for found in _BLOCK.finditer(page)]
    if sorted(names) != sorted(blocks):
        raise ValueError(f"the page has blocks {sorted(names)}, the program {sorted(blocks)}")
    return _BLOCK.sub(lambda found: f"{found[1]}{blocks[found[2]]}\n{found[3]}", page)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main(page: Path, blocks: Callable[[], Mapping[str, str]]) -> int:
    """Write the page's blocks; with `--check`, say how it differs instead, and exit 1 if it does."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    page = Path(arguments[0]) if arguments else page
    found = page.read_text(encoding="utf-8")
    wanted = filled(found, blocks())
    if "--check" not in sys.argv:
        page.write_text(wanted, encoding="utf-8")
        return 0
    sys.stderr.writelines(
        difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), f"{page} as it is", "as it should be")
    )
    return int(found != wanted)
