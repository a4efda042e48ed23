"""Questions that a tiny model learns in seconds: which thing a text mentions, if any."""

import numpy as np

from bertcnn.tasks.question_answering.questions import Question

THINGS = ("router", "modem", "cable", "box", "socket", "wifi")
WORDS = ("the", "is", "not", "and", "it", "has", "no", "still", "slow", "down", "since", "today")


def small_questions() -> list[Question]:
    """160 questions about things that a text mentions or not; some texts are long."""
    generator = np.random.default_rng(0)
    questions = []
    for number in range(160):
        words = generator.choice(
            WORDS, generator.integers(5, 40 if number % 9 == 0 else 9)
        ).tolist()
        if number % 3:
            words[generator.integers(len(words))] = generator.choice(THINGS)
        answers = tuple(word for word in words if word in THINGS)
        context = " ".join(words)
        questions.append(Question("what?", context, answers, tuple(map(context.index, answers))))
    return questions


LEARNED, OTHERS = small_questions()[:120], small_questions()[120:]
SMALL = {"max_tokens": 24, "stride": 8, "question_tokens": 6, "answer_tokens": 3}
QUICK = {
    "epochs": 4,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "dropout": 0.05,  # the encoder's default is 0.1
    "validation_fraction": 0.3,
    "compiled_shapes": 1,
}
