#!/usr/bin/env python3
"""Draws a trace that pretrain_gpt --trace-schedule wrote: what each rank computes, and when it waits.

make_schedule_picture.py TRACE.json PICTURE.svg

Each rank has a row: its passes with the number of their micro-batch, darker for later virtual stages, and below
them what it waited for. A tick marks where an overlapped reduction over data-parallel ranks was issued.
"""

import html
import json
import pathlib
import sys

WIDTH, LEFT, TOP, ROW, BAR, STRIP = 960, 70, 66, 62, 26, 10
WAIT, TEXT, TICK = "#d64545", "#1f2933", "#7b2cbf"
COLORS = {"forward": ("#9ec5f8", "#5a95e8"), "backward": ("#a8d8a8", "#5fae68"),
          "forward and backward": ("#8fd3c8", "#46a99a"), "reduce gradients": ("#f3c969",) * 2,
          "optimizer": ("#b9a2dd",) * 2}
# Shorter ones would be dust.
LEAST_WIDTH = 0.4


def read(path):
    """rank -> its events, and their first and last moment in ms."""
    events = [event for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
              if event["ph"] == "X"]
    if not events:
        sys.exit(f"error: {path}: expected events of a step, found none")
    ranks = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        ranks.setdefault(event["pid"], []).append(event)
    return dict(sorted(ranks.items())), min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)


def text(x, y, words, **attributes):
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{html.escape(words)}</text>'


def box(x, y, width, height, color):
    return f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}" fill="{color}"/>'


def row(events, y, place):
    """place: of a moment on the page."""
    for event in events:
        x, end = place(event["ts"]), place(event["ts"] + event["dur"])
        if event["cat"] == "computation":
            shade = COLORS[event["name"]][min(event["args"].get("chunk", 0), 1)]
            yield box(x, y, max(end - x - 0.5, LEAST_WIDTH), BAR, shade)
            if "micro_batch" in event["args"] and end - x > 9:
                yield text((x + end) / 2, y + 17, str(event["args"]["micro_batch"]), text_anchor="middle")
        else:
            if end - x > LEAST_WIDTH:
                yield box(x, y + BAR + 2, end - x, STRIP, WAIT)
            issued = place(event["args"]["issued"])
            if event["args"]["group"] == "data" and x - issued > 1:
                yield box(issued, y - 4, 1.5, BAR + 8, TICK)


def legend():
    x = LEFT
    for name, color in [*((name, shades[0]) for name, shades in COLORS.items()), ("waits", WAIT),
                        ("reduction issued", TICK)]:
        yield box(x, 36, 12, 12, color)
        yield text(x + 16, 46, name, font_size=11)
        x += 30 + 6.4 * len(name)


def draw(ranks, begin, end):
    def place(moment):
        return LEFT + (WIDTH - LEFT - 16) * (moment - begin) / (end - begin)

    height = TOP + ROW * len(ranks) + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'font-family="sans-serif" font-size="12" fill="{TEXT}">',
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             text(16, 22, f"One training step of {len(ranks)} ranks: {(end - begin) / 1000:.0f} ms",
                  font_size=15, font_weight="bold"), *legend()]
    for number, (rank, events) in enumerate(ranks.items()):
        y = TOP + ROW * number
        parts += [text(16, y + 17, f"rank {rank}"), *row(events, y, place)]
    return "\n".join(parts + ["</svg>\n"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    trace, picture = map(pathlib.Path, sys.argv[1:])
    picture.write_text(draw(*read(trace)), encoding="utf-8")


if __name__ == "__main__":
    main()
