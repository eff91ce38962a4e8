#!/usr/bin/env python3
"""Writes docs/images/speed.svg from the summary table of docs/performance.md.

make_speed_picture.py [--check]

A row of the table becomes two bars, as long as libmeg and its peer are fast; every figure and ratio of the
summary must agree with the measurements further down the page.
--check: writes nothing, exit status 1 where the picture differs.
"""

import html
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "performance.md"
PICTURE = DOCS / "images" / "speed.svg"
COLUMNS = ["task", "unit", "libmeg", "peer", "peer's name", "ratio"]
BAR, TOP, ROW, MARGIN = 330, 52, 46, 16
MACHINES = ("two virtual cores of an AMD EPYC (Zen 4; first row: Zen 5), outputs compared first",
            "; rows of H200: one NVIDIA H200")
# A character's share of the font size, at most, in the widest of the usual fonts (Verdana, DejaVu Sans).
CHARACTER = 0.66
LIBMEG, PEER, TEXT = "#3366cc", "#9aa5b1", "#1f2933"


def parts_of(page):
    """The rows of the summary table, and the text of the measurements below it."""
    summary, _, measurements = page.partition("## Summary\n")[2].partition("\n## ")
    table = [line.strip("|").split("|") for line in summary.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in table]
    if not cells or cells[0] != COLUMNS:
        sys.exit(f"error: {PAGE}: expected a summary table with the columns {COLUMNS}")
    return [dict(zip(COLUMNS, row)) for row in cells[2:]], measurements


def ratio_of(row):
    """How many times as fast libmeg is: a time counts the other way round than a rate."""
    libmeg, peer = float(row["libmeg"]), float(row["peer"])
    return peer / libmeg if row["unit"] == "s" else libmeg / peer


def check_row(row, measurements):
    """Ends the program where a figure is not among the measurements or the ratio is not theirs."""
    for column in ("libmeg", "peer", "ratio"):
        if not re.search(rf"(?<![\d.]){re.escape(row[column])}(?![\d.]*\d)", measurements):
            sys.exit(f"error: {PAGE}: summary: {row['task']}: {column} {row[column]}: not measured below")
    # The measured ratio is rounded, and its two figures are, too.
    if abs(float(row["ratio"].rstrip("x")) / ratio_of(row) - 1) > 0.02:
        sys.exit(f"error: {PAGE}: summary: {row['task']}: ratio: expected {ratio_of(row):.2f}x, "
                 f"found {row['ratio']}")


def width_of(words, font_size):
    """What the words take at most: viewers have fonts of their own."""
    return round(CHARACTER * font_size * len(words))


def text(x, y, words, **attributes):
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x}" y="{y}"{extra}>{html.escape(words)}</text>'


def bars_of(row):
    """Width, color and words of both bars, the faster one BAR wide."""
    ratio = ratio_of(row)
    return [(round(BAR * min(1, ratio), 1), LIBMEG, f"libmeg {row['libmeg']} {row['unit']}"),
            (round(BAR * min(1, 1 / ratio), 1), PEER, f"{row[COLUMNS[4]]} {row['peer']} {row['unit']}")]


def draw_row(row, left, y):
    drawn = [text(left - 12, y + 20, row["task"], text_anchor="end")]
    for offset, (width, color, words) in zip((0, 17), bars_of(row)):
        drawn.append(f'<rect x="{left}" y="{y + offset}" width="{width}" height="14" fill="{color}"/>')
        drawn.append(text(left + width + 6, y + offset + 11, words, font_size=11))
    return drawn


def draw(rows):
    has_gpu = any(row["task"].startswith("H200") for row in rows)
    machines = MACHINES[0] + (MACHINES[1] if has_gpu else "")
    left = MARGIN + max(width_of(row["task"], 12) for row in rows) + 12
    right = max(left + width + 6 + width_of(words, 11) for row in rows for width, _, words in bars_of(row))
    width = round(max(right, MARGIN + width_of(machines, 11))) + MARGIN
    height = TOP + ROW * len(rows) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
             text(MARGIN, 22, "Speed beside the peers: longer is faster", font_size=15, font_weight="bold"),
             text(MARGIN, 40, machines, font_size=11)]
    for number, row in enumerate(rows):
        parts += draw_row(row, left, TOP + ROW * number)
    return "\n".join(parts + ["</svg>\n"])


def main():
    rows, measurements = parts_of(PAGE.read_text(encoding="utf-8"))
    for row in rows:
        check_row(row, measurements)
    picture = draw(rows)
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"error: {PICTURE}: differs from {PAGE}; run scripts/make_speed_picture.py")


if __name__ == "__main__":
    main()
