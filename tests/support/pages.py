"""A strict reader of our pages: every element that is opened is closed, in order, and nothing is loaded."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "img", "br", "link", "input", "hr"}
_LOADING = {"src", "href", "srcset", "data", "poster", "action"}


class Parsed(HTMLParser):
    """``elements``: (name, attributes); ``texts``: (path of names, text)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def check(text: str) -> Parsed:
    """The page parsed. Fails where it is not well formed or would load something."""
    assert text.startswith("<!DOCTYPE html>\n<html")
    page = Parsed()
    page.feed(text)
    page.close()
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag not in ("script", "iframe", "link", "object", "embed"), tag
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in _LOADING or (value or "").startswith("data:"), (tag, name, value)
    assert not any("url(" in text or "@import" in text for path, text in page.texts if "style" in path)
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    return page


def text_of(page: Parsed, inside: str = "body") -> str:
    """All text in elements of a name."""
    return "".join(text for path, text in page.texts if inside in path and "style" not in path)
