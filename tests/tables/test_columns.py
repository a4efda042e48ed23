"""Column guessing on realistic files."""

import random

import pytest

from bertcnn.errors import ColumnError, LabelColumnError
from bertcnn.tables.columns import guess_columns, guess_text_columns
from bertcnn.tables.tables import Chunk

WORDS = (
    "my router modem is not working since monday please help invoice too high why again app crashes"
    " slow signal lost box"
)


def sentence(rng, words=9):
    return " ".join(rng.choices(WORDS.split(), k=rng.randint(max(2, words // 2), words * 2)))


def table(header, *makers, rows=60):
    rng = random.Random(1)
    cells = [tuple(str(make(rng, number)) for make in makers) for number in range(rows)]
    return Chunk(tuple(header), cells, list(range(2, rows + 2)))


def text(rng, number):
    return sentence(rng)


def title(rng, number):
    return sentence(rng, 4)


def long_text(rng, number):
    return sentence(rng, 40)


def identifier(rng, number):
    return f"T-{number:05}"


def date(rng, number):
    return f"2024-03-{number % 28 + 1:02}T10:00:00"


def one_of(*values):
    return lambda rng, _: rng.choice(values)


label = one_of("hardware", "software", "billing")
stars = one_of("1", "2", "3")

FILES = [
    (["text", "category"], [text, label], "text", "category"),
    (
        ["ticket_id", "created_at", "channel", "text", "label"],
        [identifier, date, one_of("web", "mail"), text, label],
        "text",
        "label",
    ),
    (
        ["id", "Betreff", "Nachricht", "Kategorie"],
        [identifier, title, text, label],
        "Nachricht",
        "Kategorie",
    ),
    (
        ["subject", "body", "queue", "priority"],
        [title, long_text, label, one_of("low", "high")],
        "body",
        "queue",
    ),
    (["sentence", "target"], [text, one_of(0, 1, 2)], "sentence", "target"),
    (["col1", "col2"], [text, label], "col1", "col2"),
    (["col1", "col2"], [label, text], "col2", "col1"),
    (["label", "text"], [label, text], "text", "label"),
    (["Étiquette", "Réclamation"], [label, text], "Réclamation", "Étiquette"),
    (["текст", "категория"], [text, label], "текст", "категория"),
    (["TicketText", "labelName"], [text, label], "TicketText", "labelName"),
    (
        ["message_id", "message", "message_type", "language"],
        [identifier, text, label, one_of("en", "de")],
        "message",
        "message_type",
    ),
    (["text", "priority"], [text, one_of("low", "high")], "text", "priority"),
    (["issue", "area"], [long_text, label], "issue", "area"),
    (["text", "amount", "area"], [text, lambda rng, _: rng.random(), label], "text", "area"),
    (["review", "rating"], [text, stars], "review", "rating"),
    (["text", "area", "rating"], [text, label, stars], "text", "area"),
    (["issue", "message", "area"], [one_of("true", "false"), text, label], "message", "area"),
    (["message", "target", "area"], [text, one_of(0, 1), label], "message", "target"),
]


@pytest.mark.parametrize(
    ("header", "makers", "text_column", "label_column"),
    FILES,
    ids=[",".join(header) for header, *_ in FILES],
)
def test_text_and_label_are_found(header, makers, text_column, label_column):
    choice = guess_columns(table(header, *makers))
    assert (choice.text, choice.label) == ((text_column,), label_column)
    assert repr(text_column) in choice.reasons["text"]
    assert repr(label_column) in choice.reasons["label"]


def closed(make):
    """Cells that are blank while a ticket is open."""
    return lambda rng, number: make(rng, number) if number % 3 == 0 else ""


COMPLAINTS = {
    "Date received": date,
    "Product": one_of("Credit reporting, or other personal reports", "Mortgage", "Debt collection"),
    "Sub-product": one_of("a", "b", ""),
    "Issue": one_of("Wrong report", "Fees", "Fraud or scam", "Late"),
    "Consumer complaint narrative": closed(long_text),
    "Company": one_of("X", "Y"),
    "State": one_of("CA"),
    "Complaint ID": identifier,
}


def test_consumer_complaints_with_few_narratives():
    choice = guess_columns(table(COMPLAINTS, *COMPLAINTS.values(), rows=300))
    assert (choice.text, choice.label) == (("Consumer complaint narrative",), "Product")
    assert (choice.id, choice.time) == ("Complaint ID", "Date received")
    assert "; 'Issue', 'Sub-product' could also be the label" in choice.reasons["label"]


SUPPORT = {
    "Ticket ID": lambda _, number: number,
    "Customer Name": one_of("Ann Stone", "Ben Hill", "Cleo Marsh"),
    "Customer Email": lambda _, number: f"person{number}@example.com",
    "Customer Age": lambda rng, _: rng.randint(18, 70),
    "Customer Gender": one_of("Male", "Female", "Other"),
    "Product Purchased": one_of(*(f"Product {number}" for number in range(42))),
    "Date of Purchase": date,
    "Ticket Type": one_of("Refund request", "Technical issue", "Product inquiry"),
    "Ticket Subject": one_of("Software bug", "Data loss", "Battery life"),
    "Ticket Description": long_text,
    "Ticket Status": one_of("Open", "Closed", "Pending Customer Response"),
    "Resolution": closed(text),
    "Ticket Priority": one_of("Low", "High"),
    "Ticket Channel": one_of("Email", "Chat", "Phone"),
    "First Response Time": date,
    "Time to Resolution": closed(date),
    "Customer Satisfaction Rating": closed(one_of("1.0", "2.0", "3.0")),
}


def test_a_help_desk_is_read_as_a_person_would():
    choice = guess_columns(table(SUPPORT, *SUPPORT.values(), rows=300))
    assert (choice.text, choice.label) == (("Ticket Description",), "Ticket Type")
    assert "not 'Resolution', written after the decision" in choice.reasons["text"]
    assert "add --text" not in choice.reasons["text"]
    assert choice.reasons["label"].endswith(
        "; 'Product Purchased', 'Ticket Priority' could also be the label: name it with --label"
    )


@pytest.mark.parametrize("name", ["answer", "Antwort", "Resolution notes", "rating_comment"])
def test_text_written_after_the_decision_is_the_text_only_without_another(name):
    both = guess_columns(table([name, "subject", "team"], long_text, title, label))
    assert both.text == ("subject",)
    alone = guess_columns(table([name, "team"], long_text, label))
    assert alone.text == (name,)
    told = f"new tickets do not have {name!r}, written after the decision"
    assert told in alone.reasons["text"]
    named = guess_columns(table([name, "subject", "team"], long_text, title, label), text=name)
    assert told in named.reasons["text"]


def test_identifier_and_time_are_found_and_reasons_are_words():
    choice = guess_columns(table(*FILES[1][:1], *FILES[1][1]))
    assert (choice.id, choice.time) == ("ticket_id", "created_at")
    assert choice.reasons["text"].startswith("'text' (longest free text: ")
    assert choice.reasons["text"].endswith(" characters on average, 100% different)")
    assert choice.reasons["label"] == "'label' (by its name: 3 different values in 60 rows)"
    two_texts = guess_columns(table(*FILES[3][:1], *FILES[3][1])).reasons["text"]
    assert "'subject' is also free text: to join them, add --text subject,body" in two_texts


def test_na_and_null_are_texts_and_labels():
    sample = Chunk(
        ("text", "label"),
        [("NA", "null"), ("null", "NA"), ("router dead", "NA"), ("NA", "null")],
        [2, 3, 4, 5],
    )
    choice = guess_columns(sample)
    assert (choice.text, choice.label) == (("text",), "label")


def test_many_labels_in_a_file_that_is_sorted_by_them():
    rows = [(sentence(random.Random(row)), f"label_{row // 130}") for row in range(10_003)]
    choice = guess_columns(Chunk(("text", "category"), rows, list(range(2, 10_005))))
    assert choice.label == "category"
    assert "77 different values in 10,003 rows" in choice.reasons["label"]


def test_named_columns_are_taken_as_they_are():
    sample = table(*FILES[3][:1], *FILES[3][1])
    assert guess_columns(sample, text="subject,body", label="priority").text == ("subject", "body")
    assert guess_columns(sample, text=["body"], label="priority").label == "priority"
    assert guess_columns(Chunk(("a,b", "c"), [("x", "y")], [2]), text="a,b", label="c").text == (
        "a,b",
    )


def test_a_column_that_is_mostly_blank_can_be_the_label_but_comes_last():
    def assigned(rng, number):
        return label(rng, number) if number % 10 == 0 else ""

    rare = table(("message", "assigned_to"), text, assigned, rows=300)
    assert guess_columns(rare).label == "assigned_to"
    header = ("message", "contract", "assigned_to")
    both = guess_columns(table(header, text, one_of("fibre", "cable tv"), assigned, rows=300))
    assert both.label == "contract"
    assert "'assigned_to' could also be the label" in both.reasons["label"]


def test_a_named_column_that_is_missing_is_reported_with_the_closest():
    sample = table(*FILES[3][:1], *FILES[3][1])
    with pytest.raises(ColumnError, match=r"no column 'Bodies'; .* 'queue', .*mean 'body'"):
        guess_columns(sample, text="Bodies")
    with pytest.raises(ColumnError, match="no column 'labels'"):
        guess_columns(sample, label="labels")
    with pytest.raises(ColumnError, match="column 'body' is named as text and as label"):
        guess_columns(sample, text="body", label="body")


@pytest.mark.parametrize(
    ("name", "maker", "message"),
    [
        ("label", label, r"no column looks like text; .*: 'created_at', 'label'; .*--text"),
        *(
            (name, one_of("web", "mail"), rf"like text; .*'{name}'")
            for name in ("channel", "status", "language", "company")
        ),
    ],
)
def test_without_a_column_like_text_or_labels_the_columns_are_named(name, maker, message):
    with pytest.raises(ColumnError, match=message):
        guess_columns(table(["created_at", name], date, maker))
    if name != "label":
        with pytest.raises(ColumnError, match=rf"like labels; .*'{name}', 'text'; .*--label"):
            guess_columns(table(["created_at", name, "text"], date, maker, text))


@pytest.mark.parametrize("prefix", ["", "bertcnn_"])
def test_a_models_own_answers_are_never_the_label_nor_the_text(prefix):
    ours = [f"{prefix}{name}" for name in ("predicted_label", "confidence", "decision", "because")]
    makers = [label, one_of("0.9"), one_of("auto"), long_text]
    sample = table(("message", "correct_label", *ours), text, label, *makers)
    choice = guess_columns(sample)
    assert (choice.text, choice.label) == (("message",), "correct_label")
    assert "predicted" not in choice.reasons["label"]
    assert guess_columns(sample, label=ours[0]).label == ours[0]  # requested by name
    with pytest.raises(ColumnError, match="no column looks like text"):
        guess_columns(table(ours, *makers))


def test_the_doctors_advice_is_never_the_label_nor_the_text():
    header = ("message", "zustaendig", "suggested_label", "finding")
    choice = guess_columns(table(header, text, label, closed(label), long_text))
    assert (choice.text, choice.label) == (("message",), "zustaendig")
    assert "finding" not in choice.reasons["text"]


def test_a_file_to_score_needs_no_label():
    header = ["ticket_id", "created_at", "channel", "text"]
    choice = guess_text_columns(table(header, identifier, date, one_of("web", "mail"), text))
    found = (choice.text, choice.label, choice.id, choice.time)
    assert found == (("text",), None, "ticket_id", "created_at")


def test_the_only_column_and_the_columns_of_training_are_the_text():
    only = Chunk(("x",), [("1",)], [2])
    assert guess_text_columns(only).text == ("x",)
    with pytest.raises(ColumnError, match=r"no column 'text', .* found: 'x'; .* add --text 'x'"):
        guess_text_columns(only, trained_on=("text",))
    sample = table(*FILES[3][:1], *FILES[3][1])
    choice = guess_text_columns(sample, trained_on=("Subject", "BODY "))
    assert choice.text == ("subject", "body")
    assert choice.reasons["text"] == "'subject', 'body' (as in training)"
    with pytest.raises(
        ColumnError, match=r"no column 'nachricht', which the model was trained on; .*--text NAME"
    ):
        guess_text_columns(sample, trained_on=("nachricht",))


def test_a_file_without_a_header_is_suspected_by_a_columns_name():
    rows = [
        ("my bill is wrong, please look at it", "billing"),
        ("the router has been dead since Monday", "hardware"),
    ]
    for header, suspected in (
        (("why was I charged twice this month", "billing"), True),
        (("text", "label"), False),
    ):
        for choice in (
            guess_columns(Chunk(header, rows * 4, list(range(8)))),
            guess_text_columns(Chunk(header, rows * 4, list(range(8)))),
        ):
            assert ("if the file has no header" in choice.reasons["text"]) == suspected


@pytest.mark.parametrize(
    "cell", ["1" * 200_000 + "x", "1" + " " * 20_000 + "x", "-1.5e3 %", "1 000,50", "٣"]
)
def test_a_cell_of_many_digits_is_looked_at_once(cell):
    sample = Chunk(
        ("number", "text"), [(cell, "the router is dead"), (cell, "no signal at all")], [2, 3]
    )
    assert guess_text_columns(sample).text == ("text",)


def yes_no(rng, _):
    return rng.choice(["Yes", "No"])


NO_TEXTS = {
    "Request": yes_no,
    "Comments": one_of(0, 1, 2, 3, 17),
    "Message": lambda _, number: str(number * 31),
    "Ticket": lambda _, number: f"INC{number:07}",
    "text": identifier,
    "Note": date,
    "Description": lambda _, number: f"https://example.com/tickets/{number}",
    "Feedback": lambda _, number: f"person{number}@example.com",
    "Remarks": one_of("done", "open", "in progress"),
    "Content": lambda _, number: f"+49 30 {number:07}",
}


@pytest.mark.parametrize("name", NO_TEXTS)
def test_cells_say_more_than_a_name_of_texts(name):
    with pytest.raises(ColumnError, match="no column looks like text"):
        guess_text_columns(table([name, "team"], NO_TEXTS[name], label))
    assert guess_columns(table([name, "what", "team"], NO_TEXTS[name], text, label)).text == (
        "what",
    )


@pytest.mark.parametrize("constant", ["label", "category", "queue"])
def test_a_column_with_one_value_is_the_label_only_without_another(constant):
    choice = guess_columns(table([constant, "message", "wohin"], one_of("x"), text, label))
    assert (choice.text, choice.label) == (("message",), "wohin")
    assert repr(constant) not in choice.reasons["label"]
    only = guess_columns(table([constant, "message"], one_of("x"), text))
    assert only.label == constant
    assert "no possible label column has 2 different values" in only.reasons["label"]


def test_names_are_compared_without_case_spaces_and_forms_of_accents():
    sample = table(["\ufeffSubject ", "Catégorie", "Ticket_Text"], title, label, text)
    choice = guess_columns(sample, text="ticket text,SUBJECT", label="CATE\u0301GORIE")
    assert (choice.text, choice.label) == (("Ticket_Text", "\ufeffSubject "), "Catégorie")
    assert guess_text_columns(sample, trained_on=["ticket-text"]).text == ("Ticket_Text",)
    both = table(["Text", "TEXT", "label"], text, text, label)
    assert guess_columns(both, text="TEXT").text == ("TEXT",)
    with pytest.raises(ColumnError, match="no column 'text'"):
        guess_columns(both, text="text")


def test_a_header_without_rows_is_guessed_by_its_names():
    assert guess_text_columns(Chunk(("id", "Message", "label"), [], [])).text == ("Message",)
    assert guess_text_columns(Chunk(("a", "b"), [], [])).text == ("a",)
    with pytest.raises(ColumnError, match="which the model was trained on"):
        guess_text_columns(Chunk(("a", "b"), [], []), trained_on=["text"])


ONE_HOT = Chunk(
    ("text", "billing", "network", "other"),
    [(f"the router {row} is dead again", *("100", "010", "001")[row % 3]) for row in range(30)],
    list(range(2, 32)),
)


def test_one_column_for_each_label_is_named_as_that():
    with pytest.raises(
        LabelColumnError, match="'billing', 'network', 'other' hold 0 and 1"
    ) as told:
        guess_columns(ONE_HOT)
    assert "into one column" in told.value.fix
    assert guess_columns(ONE_HOT, label="billing").label == "billing"


def test_columns_of_0_and_1_beside_a_label_column_are_not_labels():
    columns = (*ONE_HOT.columns, "label")
    rows = [(*row, "ab"[place % 2]) for place, row in enumerate(ONE_HOT.rows)]
    assert guess_columns(Chunk(columns, rows, ONE_HOT.line_numbers)).label == "label"


def test_the_only_text_named_as_label_or_the_reverse_is_refused():
    rows = [(f"the router {row} is dead again", "ab"[row % 2]) for row in range(30)]
    table = Chunk(("text", "label"), rows, list(range(2, 32)))
    with pytest.raises(ColumnError, match="no column is left for the texts"):
        guess_columns(table, label="text")
    with pytest.raises(ColumnError, match="no column is left for the labels"):
        guess_columns(table, text="label")


def test_a_column_named_as_times_may_hold_some_other_cells():
    def day(rng, number):
        return "soon" if number % 4 == 0 else date(rng, number)

    for name, found in (("received", "received"), ("remark", None)):
        assert guess_text_columns(table([name, "text"], day, text)).time == found
