#!/usr/bin/env python3
"""Lays the pages of this repository out for mkdocs.

A copy of every page under its own path, the files that pages link to, and mkdocs's settings, whose navigation is the index
by task in docs/README.md.

    make_site.py STAGING SITE
"""

import json
import os
import pathlib
import re
import shutil
import sys

from check_pages import PAGES, ROOT, text_of

# Made by other tools beside the pages, which cannot check links to them.
REFERENCE = """# Reference

- <a href="cpp/index.html">C++: the headers to include</a>
- <a href="python/libmeg.html">Python: the package</a>
"""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def title_of(page):
    return re.search(r"^# (.+)$", text_of(page), re.MULTILINE).group(1).replace("`", "")


def linked(page, target):
    """What a link on a page leads to; None outside the repository."""
    name = target.partition("#")[0]
    if re.match(r"[a-z]+:", target) or not name:
        return None
    return (page.parent / name).resolve()


def copy_page(page, staging):
    """Links to folders become text: a site has no page of a folder."""

    def without_folders(match):
        path = linked(page, match.group(2))
        if path is None or not path.is_dir():
            return match.group(0)
        return match.group(1)

    parts = CODE.split(text_of(page))
    parts[::2] = [LINK.sub(without_folders, part) for part in parts[::2]]
    copy = staging / page.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text("".join(parts), encoding="utf-8")


def copy_linked_files(page, staging):
    for _, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", text_of(page)):
        path = linked(page, target)
        if path is None or not path.is_file() or path.suffix == ".md":
            continue
        copy = staging / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def navigation():
    """The sections of the index with the pages of each, then the pages that it does not name."""
    index = ROOT / "docs" / "README.md"
    named = {ROOT / "README.md", index}
    sections = [{"Start": ["README.md", "docs/README.md"]}]
    for heading, body in re.findall(r"^#+ ([^\n]+)\n(.*?)(?=^#|\Z)", text_of(index), re.MULTILINE | re.DOTALL):
        pages = []
        for _, target in LINK.findall(body):
            page = linked(index, target)
            if page in PAGES and page not in named:
                named.add(page)
                pages.append({title_of(page): str(page.relative_to(ROOT))})
        if pages:
            sections.append({heading: pages})
    rest = [{title_of(page): str(page.relative_to(ROOT))} for page in sorted(PAGES) if page not in named]
    return [*sections, {"Reference": ["reference.md"]}, {"More": rest}]


def settings(staging, site):
    return {
        "site_name": "libmeg",
        "docs_dir": str(staging),
        "site_dir": str(site),
        "strict": True,
        # Everything works from a folder, without a server and without other hosts.
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.sections", "navigation.top", "content.code.copy"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "tables",
            "sane_lists",
            {"toc": {"permalink": True, "slugify": "SLUGIFY"}},
            "pymdownx.superfences",
            "pymdownx.highlight",
        ],
        "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}},
        "nav": navigation(),
    }


def main():
    staging, site = (pathlib.Path(os.path.abspath(argument)) for argument in sys.argv[1:])
    shutil.rmtree(staging, ignore_errors=True)
    for page in PAGES:
        copy_page(page, staging)
        copy_linked_files(page, staging)
    (staging / "reference.md").write_text(REFERENCE, encoding="utf-8")
    for image in (ROOT / "docs" / "images").iterdir():
        copy = staging / "docs" / "images" / image.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, copy)
    # JSON is YAML, but for a function, which makes the anchors that check_pages.py expects.
    text = json.dumps(settings(staging, site), indent=2)
    text = text.replace('"SLUGIFY"', '!!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}')
    staging.with_suffix(".yml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
