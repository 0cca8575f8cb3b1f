"""Documents: every relative link leads to a file and a heading that are there."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@cache
def headings(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them: lower case, no punctuation, spaces as hyphens."""
    collected: list[str] = []
    for line in _without_code(document).splitlines():
        if heading := re.match(r"#{1,6} (.+)", line):
            plain = re.sub(r"[^\w\- ]", "", heading[1].strip().lower())
            slug = plain.replace(" ", "-")
            again = sum(
                1 for each in collected if each == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", each)
            )
            collected.append(f"{slug}-{again}" if again else slug)
    return set(collected)


def broken(document: Path) -> list[str]:
    """The relative links of a document that lead nowhere."""
    wrong = []
    for link in LINK.findall(_without_code(document)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        there = (document.parent / path).resolve() if path else document
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in headings(there)):
            wrong.append(link)
    return wrong


def _without_code(document: Path) -> str:
    text = re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), text)


def test_every_link_leads_somewhere() -> None:
    found = {str(page.relative_to(ROOT)): links for page in DOCUMENTS if (links := broken(page))}
    assert found == {}


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# Right here, now\n# Twice\n# Twice\n")
    page = tmp_path / "a.md"
    page.write_text(
        "[a](b.md#right-here-now) [b](b.md#twice-1) [c](#own) [d](c.md) [e](b.md#twice-2) `[f](x.md)`\n# Own\n"
    )
    assert broken(page) == ["c.md", "b.md#twice-2"]
