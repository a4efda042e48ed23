"""A small HTML parser for tests: elements with attributes and texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "wbr", "img", "input", "hr", "base"}


@dataclass
class Element:
    """One element; `text` is all text in it, as a reader sees it."""

    tag: str
    attributes: dict
    children: list = field(default_factory=list)

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def value(self):
        return float(self.attributes["data-value"])

    def all(self, tag=None, **attributes):
        """All elements below this one, in document order."""
        for child in self.children:
            if not isinstance(child, str):
                if (tag in (None, child.tag)) and all(
                    child.attributes.get(name) == value for name, value in attributes.items()
                ):
                    yield child
                yield from child.all(tag, **attributes)

    def one(self, **attributes):
        return next(self.all(**attributes))

    def table(self, name):
        """The cells of a table's body, row by row."""
        body = next(self.one(id=name).all("tbody"))
        return [
            [cell for cell in row.children if not isinstance(cell, str)] for row in body.all("tr")
        ]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(self.open[-1].children[-1])

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Element(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, (self.open[-1].tag, tag)
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read_page(html):
    """Parse a page; an element that is not closed properly is an error."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1
    return reader.open[0]
