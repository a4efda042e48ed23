"""Decoded text is spaced as a person would write it, and its words are unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.text.joining import join_words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", ""),
        ("no", "no"),
        ("no signal", "no signal"),
        ("no signal ! ! ! since 9 am .", "no signal!!! since 9 am."),
        ("refund , please ; thanks : )", "refund, please; thanks:)"),
        ("( not free ) [ really ? ]", "(not free) [really?]"),
        ("don ' t , won ’ t", "don't, won’t"),
        ("e - mail me and / or call , user _ name", "e-mail me and/or call, user_name"),
        ("wait - - now", "wait - - now"),
        ("- 1 and -", "- 1 and -"),
        ("$ 12 . 50 , 1 , 000 at 10 : 30 : yes . 5", "$12.50, 1,000 at 10:30: yes. 5"),
        ('say " no " , " yes "', 'say "no", "yes"'),
        ('( " a " )', '("a")'),
        ('"', '"'),
        ("“ smart ” « quotes » ‘ too ’", "“smart” «quotes» ‘too’"),
        ("# 42 @ home 50 % off", "#42 @home 50% off"),
        ("¿ que ? ¡ hola !", "¿que? ¡hola!"),
        ("我 的 路 由 器 坏 了 ， 请 帮 我 。", "我的路由器坏了，请帮我。"),
        ("my 路 由 器 wifi", "my 路由器 wifi"),
        ("ルーター か 壊 れました 。", "ルーター か壊れました。"),
        ("라우터 고장", "라우터 고장"),
        ("[CLS] no , [MASK] . [SEP]", "[CLS] no, [MASK]. [SEP]"),
        ("[MASK] - [MASK]", "[MASK] - [MASK]"),
    ],
)
def test_spaces_are_where_a_person_would_put_them(words, text):
    assert join_words(words.split()) == text


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([*"ab1我か.,:;!?%()[]{}#@$'’-_/\\\"“”。", "word", "12", "[MASK]", "ルー"])
    )
)
def test_no_word_is_lost_or_changed(words):
    assert join_words(words).replace(" ", "") == "".join(words)
