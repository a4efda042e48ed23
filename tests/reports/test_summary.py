"""The report's first three sentences."""

from bertcnn.evaluation.decisions import Automation
from bertcnn.evaluation.metrics import evaluate
from bertcnn.reports.summary import three_sentences

NAMES = ["billing", "hardware"]


def figures(right, wrong):
    """Half of the tickets are about billing; `wrong` of them are called hardware."""
    actual = ["billing"] * (wrong + right // 2) + ["hardware"] * (right - right // 2)
    return evaluate(NAMES, actual, ["hardware"] * wrong + actual[wrong:])


def automatic(rows, sure, right):
    return Automation(rows, sure, 0, right, 0, "0.95")


def test_the_summary_gives_accuracy_automation_and_what_to_watch():
    assert three_sentences(figures(90, 10), automatic(100, 60, 57)) == (
        "90 of 100 tickets that were kept aside get the right label; on similar tickets expect 83%"
        " to 94%.",
        "It answers 60% of tickets without a person, and 95% of these answers are right.",
        "Watch tickets about “billing”: 10 of 55 were called “hardware”.",
    )


def test_a_model_without_automatic_answers_says_so():
    _, second, third = three_sentences(figures(90, 0), automatic(90, 0, 0))
    assert second == "It answers no ticket automatically: a person decides on each one."
    assert third == "Nothing stands out; keep reading audits once it is in use."


def test_an_uninformative_model_is_not_recommended():
    third = three_sentences(figures(90, 10), automatic(100, 0, 0), knows_nothing=True)[2]
    assert third.startswith("Do not use it yet")
