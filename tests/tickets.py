"""A small labelled set that a tiny model can learn, for tests of everything after training."""

WORDS = {
    "billing": ("invoice", "refund", "charged twice", "price", "bill", "money"),
    "hardware": ("router", "cable", "modem led", "socket", "power box", "red light"),
    "software": ("app", "login", "password", "update", "crash screen", "email account"),
}


def tickets(each: int = 20) -> tuple[list[str], list[str]]:
    """`each` short texts per label."""
    texts, labels = [], []
    for label, words in WORDS.items():
        for index in range(each):
            texts.append(
                f"{words[index % len(words)]} {words[(index // 6 + 1) % len(words)]} {index}"
            )
            labels.append(label)
    return texts, labels


def as_csv(texts: list[str], labels: list[str]) -> str:
    """The set as the content of a CSV file."""
    return "id,text,label\n" + "".join(
        f'{row},"{text}",{label}\n'
        for row, (text, label) in enumerate(zip(texts, labels, strict=True))
    )
