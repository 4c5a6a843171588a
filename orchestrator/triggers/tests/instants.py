"""Makes instants.txt: what cron expressions come to in a year of some zones, minute by minute, with Python's zoneinfo.

Shares no code and no method with the crate: it walks along all minutes of the year and asks which local times each one is
the first to show, those that a gap leaves out included.

Run: python3 instants.py > instants.txt
"""

import hashlib
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

YEAR = 2025
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago"]
CRONS = [
    "* 0-3 * * *",
    "*/15 * * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15 1-3 * * *",
    "0 18 * * 0",
    "0 9 * * 1-5",
    "45 23 28-31 * *",
    "0 12 1,15 * 3",
    "5 4 */3 * 5",
    "0 0 29 2 *",
    "10-50/20 0,12 * 3-11/4 *",
]
MINUTE = timedelta(minutes=1)


def values(text, least, most):
    found = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = least, most
        elif "-" in span:
            first, last = map(int, span.split("-"))
        else:
            first = last = int(span)
        found.update(range(first, last + 1, int(step or 1)))
    return found


def matcher(cron):
    texts = cron.split()
    minutes, hours, days, months, weekdays = (
        values(text, least, most)
        for text, (least, most) in zip(texts, [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)])
    )
    either = not texts[2].startswith("*") and not texts[4].startswith("*")

    def matches(local):
        weekday = local.isoweekday() % 7
        by_day = local.day in days
        by_weekday = weekday in weekdays or (weekday == 0 and 7 in weekdays)
        day = (by_day or by_weekday) if either else (by_day and by_weekday)
        return local.minute in minutes and local.hour in hours and local.month in months and day

    return matches


def first_shown(zone):
    """Pairs of a Unix time in seconds and the local times that it is the first to show."""
    at = datetime(YEAR, 1, 1, tzinfo=timezone.utc)
    end = datetime(YEAR + 1, 1, 1, tzinfo=timezone.utc)
    latest = (at - MINUTE).astimezone(zone).replace(tzinfo=None)
    while at < end:
        local = at.astimezone(zone).replace(tzinfo=None)
        shown = []
        while latest < local:
            latest += MINUTE
            shown.append(latest)
        if shown:
            yield int(at.timestamp()), shown
        at += MINUTE


for name in ZONES:
    table = list(first_shown(ZoneInfo(name)))
    for cron in CRONS:
        matches = matcher(cron)
        instants = [second * 1000 for second, shown in table if any(map(matches, shown))]
        digest = hashlib.sha256(",".join(map(str, instants)).encode()).hexdigest()
        print(f"{name};{cron};{len(instants)};{digest}")
