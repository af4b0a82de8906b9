"""The documentation builds as a site, without a warning, and its pages need nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytestmark = pytest.mark.process  # mkdocs

ROOT = Path(__file__).resolve().parents[2]


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag != "meta":
            self.loaded += [found[name] for name in ("src", "href") if found.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[Path, Links]:
    """Path -> what a page links to and loads."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", ".mkdocs.yml", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Links(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html") if path.name != "404.html"}


def test_every_page_is_there(site):
    pages = {path.stem for path in (ROOT / "docs").rglob("*.md")}
    assert pages == {path.stem for path in site}
    home = next(links for path, links in site.items() if path.name == "index.html")
    assert {"tour.html", "coming_from.html", "troubleshooting.html", "reference.html", "pictures.html"} <= set(home.links)


def test_the_home_page_has_highlighting_and_pictures(site):
    home = next(path for path in site if path.name == "index.html")
    text = home.read_text(encoding="utf-8")
    assert re.search(r'<div class="highlight">.*?<span class="k">SELECT</span>', text, re.S)
    assert {"failed_logins.svg", "plot.svg"} <= set(site[home].loaded)


def test_links_lead_to_pages_and_headings(site):
    checked = 0
    for path, links in site.items():
        for link in links.links:
            target, heading = urldefrag(link)
            if re.match(r"[a-z]+:", link) or link == "#":
                continue
            aim = (path.parent / unquote(target)).resolve() if target else path
            assert aim.exists(), (path.name, link)
            if heading and aim in site:
                assert heading in site[aim].ids, (path.name, link)
                checked += 1
    assert checked > 50


def test_pages_load_nothing_from_elsewhere(site):
    for path, links in site.items():
        for link in links.loaded:
            assert not re.match(r"(https?:)?//", link), (path.name, link)
            assert (path.parent / unquote(urldefrag(link)[0].partition("?")[0])).exists(), (path.name, link)
