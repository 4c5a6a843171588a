"""Makes the tables of README.md and the drawings beside it from results/*.json. Measures nothing, changes no other line.

python3 page.py [FOLDER]: the folder with README.md and results, this one unless given.
"""

import json
import math
import sys
from pathlib import Path
from statistics import median

# Of each curve: what it runs over, the scale of that, what is drawn, the scale of that, and its unit.
SHAPES = {
    "steps": ("steps of the plan", "log", "us per step", "log", "us"),
    "chains": ("steps of the chain", "log", "steps/s", "linear", "steps/s"),
    "callers": ("callers", "log", "executions/s", "linear", "executions/s"),
    "workers": ("workers", "log", "executions/s", "linear", "executions/s"),
    "queued": ("queued executions", "log", "resident memory of the orchestrator, MiB", "log", "MiB"),
    "running": ("running executions", "log", "resident memory of the orchestrator, MiB", "log", "MiB"),
    "sessions": ("sessions", "log", "resident memory, MiB", "log", "MiB"),
    "session_cpu": ("sessions", "log", "% of one core", "log", "%"),
    "latency": ("percentile", "nines", "ms", "log", "ms"),
}
COLOURS = ["#0969da", "#bc4c00", "#1a7f37", "#8250df"]
DASHES = {"product": "", "floor": "6 4", "reference": "2 4"}


def number(value):
    """Three or more digits that count."""
    size = abs(value)
    if size >= 1000:
        return f"{math.floor(value + 0.5):,}"
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}"


def spread(middle, low, high):
    middle, low, high = number(middle), number(low), number(high)
    return middle if low == high else f"{middle} ({low} to {high})"


def table(heads, rules, rows):
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [heads, rules, *rows])


def floor_of(curve, series):
    same = [other for other in curve["series"] if other["role"] == "floor"]
    return next((o for o in same if (o["name"], o["unit"]) == (series["name"], series["unit"])), None)


def name_of(curve, series):
    if series["role"] != "floor":
        return series["name"]
    floors = {other["name"] for other in curve["series"] if other["role"] == "floor"}
    return "floor" if floors == {series["name"]} else f"{series['name']}: floor"


def rounds_at(series, x):
    return next((point["rounds"] for point in series["points"] if point["x"] == x), [])


def columns(curve):
    for series in curve["series"]:
        if series["role"] == "floor":
            continue
        of = lambda x, series=series: rounds_at(series, x)
        text = lambda rounds: spread(median(rounds), min(rounds), max(rounds))
        yield f"{series['name']}, {series['unit']}", of, text
        floor = floor_of(curve, series) if series["role"] == "product" else None
        if floor:
            by = lambda x, floor=floor: rounds_at(floor, x)
            yield f"{name_of(curve, floor)}, {series['unit']}", by, text
            # Round by round: both were measured in the same minute.
            ratios = lambda x, of=of, by=by: [a / b for a, b in zip(of(x), by(x))]
            yield "ratio", ratios, lambda rounds: f"{median(rounds):.2f}"


def curve_table(x_label, curve):
    all_columns = list(columns(curve))
    places = sorted({point["x"] for series in curve["series"] for point in series["points"]})
    rows = []
    for x in places:
        cells = [text(of(x)) if of(x) else "" for _, of, text in all_columns]
        rows.append([number(x) if x >= 1000 else f"{x:g}", *cells])
    heads = [x_label, *(head for head, _, _ in all_columns)]
    return table(heads, ["---:"] * len(heads), rows)


def bar_row(bar):
    unit, aim = bar.get("unit", ""), bar["aim"]
    limit = f"ratio {aim['is']} {aim['limit']:g}" if aim["of"] == "ratio" else f"{aim['is']} {number(aim['limit'])} {unit}"
    return [
        bar["what"],
        f"{spread(bar['value'], bar['low'], bar['high'])} {unit}",
        f"{bar['baseline']}: {number(bar['baseline_value'])}" if "baseline" in bar else "",
        spread(bar["ratio"], bar["ratio_low"], bar["ratio_high"]) if "ratio" in bar else "",
        limit,
        "yes" if bar["met"] else "**no**",
    ]


def machine_text(machine):
    return (
        f"{machine['processor']}, {machine['memory']} of memory, stores on {machine['disk']}, "
        f"Linux {machine['kernel']}, {machine['product']}, {machine['compiler']}"
    )


def machine_part(measured):
    """All machines in the order of the page, and how fast their disks were."""
    texts = list(dict.fromkeys(machine_text(each["machine"]) for each in measured))
    part = ""
    for index, text in enumerate(texts):
        writes = [each["machine"]["durable_write_ms"] for each in measured if machine_text(each["machine"]) == text]
        part += f"Machine {index + 1}: " if len(texts) > 1 else ""
        part += f"{text}.\nOne durable write of 4 KiB took {median(writes):g} ms "
        part += f"(median of each run: {min(writes):g} to {max(writes):g}).\n\n"
    return texts, part


def provenance(measured, texts, rounds):
    machine = f" on machine {texts.index(machine_text(measured['machine'])) + 1}" if len(texts) > 1 else ""
    look = ", a quick look that is no figure" if measured["is_quick"] else ""
    return f"Measured on {measured['on']}{machine}{rounds}{look}.\n"


def scaled(scale, value):
    if scale == "linear":
        return value
    return math.log10(value) if scale == "log" else -math.log10(1 - value / 100)


def ticks(scale, low, high, places):
    if scale == "nines":
        return places
    if scale == "log":
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [10.0**power for power in powers]
    step = 10 ** math.floor(math.log10(high))
    step = step / 2 if high / step < 3 else step
    return [step * n for n in range(math.ceil(high / step) + 1)]


def drawing(title, shape, curve):
    """Lines through the medians with bands from low to high, on a white card."""
    x_label, x_scale, y_label, y_scale, unit = shape
    drawn = [series for series in curve["series"] if series["unit"] == unit and series["points"]]
    places = sorted({point["x"] for series in drawn for point in series["points"]})
    values = [value for series in drawn for point in series["points"] for value in point["rounds"]]
    y_ticks = ticks(y_scale, min(values), max(values), [])
    span = lambda scale, all_values: (scaled(scale, min(all_values)), scaled(scale, max(all_values)))
    (left, right), (bottom, top) = span(x_scale, places), span(y_scale, y_ticks)
    at_x = lambda x: 80 + 600 * ((scaled(x_scale, x) - left) / (right - left) if right > left else 0.5)
    at_y = lambda y: 380 - 300 * ((scaled(y_scale, y) - bottom) / (top - bottom) if top > bottom else 0.5)
    text = lambda x, y, anchor, content: f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{content}</text>\n'
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 440" font-family="sans-serif" font-size="12">\n'
    svg += f'<rect width="720" height="440" rx="6" fill="white"/>\n<g fill="#1f2328">\n{text(360, 22, "middle", title)}'
    for tick in y_ticks:
        svg += f'<path d="M80 {at_y(tick):.1f}H680" stroke="#d1d9e0"/>\n{text(72, at_y(tick) + 4, "end", f"{tick:,g}")}'
    for place in ticks(x_scale, min(places), max(places), places):
        if min(places) <= place <= max(places):
            svg += text(at_x(place), 398, "middle", f"{place:,g}")
    svg += text(380, 428, "middle", x_label)
    svg += f'<text transform="translate(16 230) rotate(-90)" text-anchor="middle">{y_label}</text>\n</g>\n'
    names = list(dict.fromkeys(series["name"] for series in drawn))
    for index, series in enumerate(drawn):
        colour = COLOURS[names.index(series["name"]) % len(COLOURS)]
        points = sorted((point["x"], point["rounds"]) for point in series["points"])
        line = " ".join(f"{at_x(x):.1f},{at_y(median(rounds)):.1f}" for x, rounds in points)
        band = [f"{at_x(x):.1f},{at_y(max(rounds)):.1f}" for x, rounds in points]
        band += [f"{at_x(x):.1f},{at_y(min(rounds)):.1f}" for x, rounds in reversed(points)]
        dash = DASHES[series["role"]]
        svg += f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.12"/>\n'
        svg += f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>\n'
        x, y = 80 + 150 * (index % 4), 42 + 16 * (index // 4)
        svg += f'<path d="M{x} {y - 4}h24" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>\n'
        svg += text(x + 30, y, "start", name_of(curve, series))
    return svg + "</svg>\n"


def replaced(page, name, part):
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{part.strip()}\n\n{end}{after}"


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    read = lambda name: json.loads((folder / "results" / name).read_text())
    curves, bars = read("curves.json")["curves"], read("bars.json")["bars"]
    shown = {name: curves[name] for name in SHAPES if name in curves}
    measured = [bar["measured"] for bar in bars] + [curve["measured"] for curve in shown.values()]
    texts, machines = machine_part(measured)
    page = replaced((folder / "README.md").read_text(), "machine", machines)
    heads = ["what", "measured", "beside it", "ratio", "aim", "met"]
    rules = ["---", "---:", "---:", "---:", "---", "---"]
    oldest = min((bar["measured"] for bar in bars), key=lambda each: each["on"])
    rows = [bar_row(bar["line"]) for bar in bars]
    page = replaced(page, "bars", f"{table(heads, rules, rows)}\n{provenance(oldest, texts, '')}")
    for name, curve in shown.items():
        n_rounds = max(len(point["rounds"]) for series in curve["series"] for point in series["points"])
        rounds = ", one round" if n_rounds == 1 else f", {n_rounds} rounds"
        notes = "".join(f"{note}\n" for note in curve["notes"])
        told = provenance(curve["measured"], texts, f"{rounds} (`--only {name}`)")
        page = replaced(page, name, f"{curve_table(SHAPES[name][0], curve)}\n{notes}{told}")
        title = page.split(f"![")[list(shown).index(name) + 1].split("]")[0]
        (folder / "results" / f"{name}.svg").write_text(drawing(title, SHAPES[name], curve))
    (folder / "README.md").write_text(page)


if __name__ == "__main__":
    main()
