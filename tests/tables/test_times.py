"""Times in the cells of a column, compared with independent parsers."""

import email.utils
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from dateutil import parser
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.errors import SettingsError
from bertcnn.tables.times import EARLIEST, TimeSurvey, looks_like_time

NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
MOMENTS = st.datetimes(datetime(1990, 1, 2), datetime(2026, 5, 31)).map(
    lambda moment: moment.replace(microsecond=0, tzinfo=UTC)
)


def form_of(*cells, dates=None):
    survey = TimeSurvey(dates, now=NOW)
    survey.update(cells)
    return survey.form()


def read(cell, *column, dates=None):
    seconds = form_of(cell, *column, dates=dates).seconds(cell)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    "cell",
    [
        "2025-12-31",
        "2025-12-31T23:59",
        "2025-12-31T23:59:59Z",
        "2025-12-31 23:59:59.123456+01:00",
        "2025-12-31 23:59:59,250 UTC",
        "2025-12-31T23:59:59 GMT",
        "2025/12/31 3:04 PM",
        "20251231T235959Z",
        "20251231",
        "12/31/2025, 11:59:59 PM",
        "12/31/25 12:30 AM",
        "12-31-2025 12:30 PM",
        "31 Dec 2025 23:59:59 -0330",
        "Wed, 31 Dec 2025 23:59:59 +0100",
        "Wednesday, December 31, 2025 11:59 PM",
        "Dec. 31 2025",
        "Wed Dec 31 23:59:59 2025",
        "31-Dec-25",
        "31 December 2025 at 10:00",
    ],
)
def test_cells_are_read_as_dateutil_reads_them(cell):
    expected = parser.parse(cell.strip())
    aware = expected if expected.tzinfo else expected.replace(tzinfo=UTC)
    assert form_of(cell).seconds(cell) == pytest.approx(aware.timestamp(), abs=1e-3)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("31.12.2025 10:15 Uhr", datetime(2025, 12, 31, 10, 15)),
        ("31. Dezember 2025", datetime(2025, 12, 31)),
        ("Mittwoch, 5. März 2025 um 8:05", datetime(2025, 3, 5, 8, 5)),
        ("31/12/99", datetime(1999, 12, 31)),
        ("2025-12-31T10:00+01:00[Europe/Berlin]", datetime(2025, 12, 31, 9)),
        ("2025-12-31 10:00:00 +0000 UTC", datetime(2025, 12, 31, 10)),
        ("31/Dec/2025:23:59:59 +0000", datetime(2025, 12, 31, 23, 59, 59)),
        ("1735689599.5", datetime(2024, 12, 31, 23, 59, 59, 500_000)),
        ("1735689599500", datetime(2024, 12, 31, 23, 59, 59, 500_000)),
        ("1735689599500000", datetime(2024, 12, 31, 23, 59, 59, 500_000)),
        ("1735689599500000000", datetime(2024, 12, 31, 23, 59, 59, 500_000)),
        ("20251231235959", datetime(2025, 12, 31, 23, 59, 59)),
    ],
)
def test_german_digits_and_program_forms_are_read(cell, expected):
    assert read(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        "0001-01-01",
        "1970-01-01",
        "2999-12-31",
        "0",
        "2025-02-30",
        "31.12.2025 25:00",
        "13/13/2025",
        "yesterday",
        "12:30",
        "2025-12-31 10:00 AAT",
        "2025-12-31 10:00+23:00",
        "13:00 PM",
        "12 printers 2025",
        "12/31/2025 13:00 PM",
    ],
)
def test_implausible_times_and_other_cells_are_not_read(cell):
    assert form_of(cell).seconds(cell) is None


@given(MOMENTS)
def test_every_plausible_moment_is_read_from_mail_iso_and_epoch(moment):
    for cell in (
        email.utils.format_datetime(moment),
        moment.isoformat(),
        moment.strftime("%d %B %Y %I:%M:%S %p"),
        str(int(moment.timestamp())),
    ):
        assert form_of(cell).seconds(cell) == moment.timestamp()


@given(st.text("0123456789/-.:, TZ+utcamp\u0661", max_size=30))
def test_no_cell_is_read_outside_the_plausible_span(cell):
    seconds = form_of(cell).seconds(cell)
    assert seconds is None or EARLIEST <= seconds <= NOW + 86_400


@given(st.lists(MOMENTS, min_size=1), st.sampled_from("./-"))
def test_a_day_above_12_decides_the_order_of_the_column(moments, mark):
    for order, pattern in (("day first", "%d{0}%m{0}%Y"), ("month first", "%m{0}%d{0}%Y")):
        cells = [moment.strftime(pattern.format(mark)) for moment in moments]
        form = form_of(*cells, datetime(2020, 2, 28).strftime(pattern.format(mark)))
        assert form.name == order
        assert [form.seconds(cell) for cell in cells] == [
            moment.replace(hour=0, minute=0, second=0).timestamp() for moment in moments
        ]


def test_an_open_order_is_not_guessed_and_one_option_settles_it():
    cell = "01/02/2025 8:15 a.m."
    assert form_of(cell).described == f"day first or month first: {cell!r} leaves it open"
    assert read(cell) is None
    assert read(cell, dates="day-first") == datetime(2025, 2, 1, 8, 15)
    assert read(cell, dates="month-first") == datetime(2025, 1, 2, 8, 15)


@pytest.mark.parametrize(
    ("cell", "hour"),
    [
        ("2025-12-31 10:00", 9),
        ("2025-12-31", 23),
        ("31.07.2025 10:00 Uhr", 8),  # in summer
        ("2025-07-31T10:00Z", 10),
        ("2025-07-31 10:00 -0500", 15),
        ("2025-03-30 02:30", 1),  # a time that the clock skips
        ("1735689600", 0),
    ],
)
def test_only_a_time_without_a_zone_is_read_in_the_zone_given(cell, hour):
    survey = TimeSurvey(now=NOW, zone=ZoneInfo("Europe/Berlin"))
    survey.update([cell])
    assert datetime.fromtimestamp(survey.form().seconds(cell), UTC).hour == hour


def test_an_unknown_order_is_refused():
    with pytest.raises(SettingsError, match="an order of dates 'us'; expected day-first"):
        TimeSurvey("us")


def test_both_orders_in_one_column_are_not_guessed():
    form = form_of("12/31/2025", "31/12/2025", "01/02/2025")
    assert form.name is None
    both = "both month first and day first, such as '12/31/2025' and '31/12/2025'"
    assert form.described == both


@pytest.mark.parametrize(
    ("column", "dates", "expected"),
    [
        (["01.02.25"], None, datetime(2025, 2, 1)),  # dots: the day is first
        (["01.02.2025", "12.31.2025"], None, datetime(2025, 1, 2)),
        (["25-01-15", "25-01-31"], None, datetime(2025, 1, 15)),
        (["01/02/2025", *["12/31/2025"] * 300, "31/12/2025"], None, datetime(2025, 1, 2)),
        (["01/02/2025", "12/31/2025", "31/12/2025"], "day-first", datetime(2025, 2, 1)),
        (["12/31/2025"], "day-first", None),
        (["2025-12-31"], "day-first", datetime(2025, 12, 31)),
    ],
)
def test_the_column_and_an_option_settle_the_order(column, dates, expected):
    assert read(*column, dates=dates) == expected


def test_one_form_reads_a_column_and_blanks_and_others_are_unknown():
    form = form_of("2025-12-31", "2025-12-30 10:00", "", " ", "soon", "1735689599")
    assert form.described == "year first, as in '2025-12-31'"
    assert [form.seconds(cell) for cell in ("", " ", "soon", "1735689599")] == [None] * 4
    assert form_of().seconds("2025-12-31") is None


def test_only_dates_look_like_times():
    dates = ("31.12.2025", "Wed, 31 Dec 2025 23:59 +0000", "0001-01-01")
    others = ("12 printers 2025", "1735689599", "T-100", "", "2025-01-01 " + "x" * 99)
    assert [*map(looks_like_time, dates + others)] == [True] * 3 + [False] * 5
    assert looks_like_time("1735689599", numbers=True)
    assert not looks_like_time("100200300", numbers=True)
