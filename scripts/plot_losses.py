#!/usr/bin/env python3
"""Draws the losses of a training log as SVG.

plot_losses.py LOG >losses.svg

LOG: what pretrain_gpt (or Megatron-LM) printed. Training and validation losses over iterations.
"""

import re
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 16, 16, 44


def points(text, pattern):
    return [(int(step), float(loss)) for step, loss in re.findall(pattern, text)]


def draw(training, validation):
    """The SVG of two lists of (iteration, loss)."""
    everything = training + validation
    last = max(step for step, _ in everything)
    low = int(min(loss for _, loss in everything) * 2) / 2
    high = int(max(loss for _, loss in everything) * 2 + 1) / 2

    def place(step, loss):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / last
        y = TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)
        return f"{x:.1f},{y:.1f}"

    def line(values, color):
        path = " ".join(place(*value) for value in values)
        return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    level = low
    while level <= high:
        x, y = place(0, level).split(",")
        parts.append(f'<path d="M{x} {y}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4}" text-anchor="end">{level:g}</text>')
        level += 0.5
    for share in range(0, 5):
        step = last * share // 4
        x = place(step, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">iteration</text>')
    parts += [line(training, "#3366cc"), line(validation, "#dd6622")]
    for number, (name, color) in enumerate((("lm loss", "#3366cc"), ("validation", "#dd6622"))):
        y = TOP + 16 + 18 * number
        parts.append(f'<path d="M{WIDTH - 130} {y - 4}h20" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - 104}" y="{y}">{name}</text>')
    return "\n".join(parts + ["</svg>"])


def main():
    with open(sys.argv[1], encoding="utf-8") as log:
        text = log.read()
    training = points(text, r"iteration +(\d+)/.*?lm loss: ([\d.E+-]+)")
    validation = points(text, r"validation loss at iteration (\d+) \| lm loss value: ([\d.E+-]+)")
    if not training:
        sys.exit(f"error: {sys.argv[1]}: expected lines of training, found none")
    print(draw(training, validation))


if __name__ == "__main__":
    main()
