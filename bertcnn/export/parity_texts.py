"""Test texts for exports: tickets, and hard cases for tokenizers."""

from __future__ import annotations

from typing import Final

_TICKETS: Final = """
My router's led is not working since this morning.
I was charged twice for the same month, please refund one of them
internet is down again!!! third time this week
How do I reset my password?
The app crashes every time I open the settings page
Please cancel my subscription effective immediately.
when will the technician arrive? waited at home all day
I never received the parcel although tracking says delivered
Card payment was declined but the money has left my account
why is there a fee of $1.50 on my statement
Can I change the delivery address of order #48213-B?
Your agent promised a call back on 12/03/2026. Nobody called.
the new modem has a red light and no signal
wifi slow in the bedroom, fine next to the box
I'd like to speak to a human, not to a bot
Thank you, everything works now :)
I want to top up using my Apple Pay
my pin is blocked after three wrong attempts, what now
Is it possible to get a second card for my wife?
the exchange rate you used on Tuesday was wrong
cash machine swallowed my card in Lisbon
Invoice 2026-0042 lists VAT at 19 % but we are exempt
Login says "account locked" - I did nothing
e-mails sent from my phone stay in the outbox
TV channels 101 to 118 show error E-52
Voicemail does not record any more
They cut the wrong cable outside of our house
please send me a copy of my contract from 2019
I moved house; how do I take my number with me?
my neighbour can see my network, is that safe?
HELP!!! SOMEBODY IS USING MY ACCOUNT
The price went up by 4 euros without notice.
I returned the shoes three weeks ago and still have no refund.
Item arrived broken, see attached photo IMG_2041.jpg
wrong size delivered, ordered XL got S
two of five bottles were smashed in the box
Could you tell me the opening hours on Sunday?
The discount code SPRING-20 does not work at checkout
the page stays white after I press "pay now"
Your web site says error 502 Bad Gateway
My order status has been 'processing' for nine days
the battery lasts 40 minutes instead of eight hours
screen flickers when the charger is plugged in
heating makes a knocking noise at night
no hot water on the second floor
lift in building C stuck between floors, nobody inside
the street lamp opposite of number 14 is out
pothole on Mill Road getting deeper after the rain
bin was not emptied on Thursday as usual
I object to parking fine PCN 77120043
My prescription was sent to the wrong pharmacy.
I need to move my appointment from Monday to Friday
The insurance rejected claim 90-1123 without a reason
what documents do you need for the mortgage application
verify my identity: the selfie check fails all the time
transfer to a friend still pending after 2 days
I see a payment in Poland that I did not make
do you support transfers in Swiss francs
limit for cash withdrawals abroad?
my top-up was reverted, why?
contactless stopped working on the bus
the card has not arrived after two weeks
how old do I have to be to open an account
please delete all of my personal data under the GDPR
Unsubscribe me from this newsletter, this is the 4th time I ask
VPN disconnects every ten minutes when I work from home
printer on floor 3 says PC LOAD LETTER
Outlook keeps asking for my credentials
laptop fan is loud and the case gets hot
I need access to the shared folder \\\\server\\finance
new colleague starts on Monday and needs a badge
Excel opens read-only although nobody else has the file
two-factor codes arrive late or not at all
projector in room 4.12 has no picture
git push fails with "remote: permission denied"
the build is red since commit 3fa9c21
disk /dev/sda1 is 100% full on web-07
TLS certificate of shop.example.com expires tomorrow
java.lang.NullPointerException at com.example.Cart.total(Cart.java:88)
{"error": {"code": 42, "message": "quota exceeded"}}
<p>Dear team,<br>the invoice is <b>wrong</b>.</p>
FYI: see https://example.com/a?b=1&c=%20d#top
mail me at jane.doe+tickets@example.co.uk
call 0049 (0)30 / 1234-567 after 5 p.m.
IBAN DE02 1203 0000 0000 2020 51
It's neither urgent nor important, just odd.
no
yes please
ok
?
why
refund
REFUND
Refund!
re-fund
refunds, refunding; refunded: refundable
un believ able
supercalifragilisticexpialidocious
antidisestablishmentarianism in the router
asdfghjkl qwertz
lorem ipsum dolor sit amet
I can't, won't, shouldn't've and y'all'd
rock'n'roll 'quoted' "double" `code`
50% off @ 3pm (maybe) - see #42 & <tag> = {x: [1, 2]} ~ ^ | \\ / _ +
1,234.56 1.234,56 1 234,56 1'234.56
-5 °C, 20 €/m², 3×4, ½ cup, 10⁻⁶, ±2 %, 5′ 10″, №5, §12
v1.2.3-rc.1+build.5
2026-11-21T11:38:21Z
""".strip().split("\n")

_OTHER_SCRIPTS: Final = """
Mon routeur ne fonctionne plus depuis hier, merci de m'aider à le réparer
J’ai été facturé deux fois… où est mon remboursement ?
Der Router blinkt rot, und die Straße hat seit Tagen kein Netz. Größe: XXL
¿Por qué me cobraron dos veces? ¡Quiero mi dinero!
Não consigo aceder à minha conta, não recebi o código
Proszę o zwrot pieniędzy za zepsuty żarłoczny łącznik
Příliš žluťoučký kůň úpěl ďábelské ódy
Hóa đơn tháng này bị tính sai, tiếng Việt có dấu
Işık yanmıyor, İNTERNET ÇALIŞMIYOR, ılık
Åse får ikke wi-fi på øya; ærlig talt
Ég fékk tvöfaldan reikning, þetta er ekki í lagi
Internetul nu merge, vă rog ajutați-mă
мой роутер сломался, верните деньги
Ёлка, йод и объём: подъезд №3
Рахунок неправильний, їжак ґанок
ο δρομολογητής ΔΕΝ λειτουργεί, πού είναι τα χρήματά μου; ΣΑΣ
我的路由器坏了，请帮帮我。
我被收了两次费，退款 refund 在哪里？
ルーターが壊れました。助けてください！ガギグ ｶﾞｷﾞｸﾞ
라우터가 고장났어요 환불해 주세요
جهاز التوجيه لا يعمل، أريد استرداد أموالي
הנתב לא עובד, שָׁלוֹם
เราเตอร์เสีย ขอเงินคืน
राउटर ख़राब है, पैसे वापस कीजिए
আমার রাউটার নষ্ট হয়ে গেছে
எனது ரூட்டர் வேலை செய்யவில்லை
ראוטער און קאַבל
რუტერი არ მუშაობს
Իմ երթուղիչը չի աշխատում
ራውተሬ አይሰራም
ལམ་སྟོན་འཕྲུལ་ཆས།
ຣູດເຕີເສຍ
""".strip().split("\n")

_NAUGHTY: Final = (
    "", " ", "\t\r\n\v\f", "\0", "router\0cable", "\ud800", "\udfff", "bill \ud83d refund", "\ufeffrefund", "\ufffe\uffff",
    "\ufffd", "\u200b\u200c\u200d\u2060", "\u202erouter\u202c", "\u2028\u2029\x85", "\x01\x02\x1b[31mred\x1b[0m\x7f",
    "ab\x01cd\x9fef", "soft\u00adhyphen", "no\u00a0break\u202fspaces\u2007here\u3000wide", "so…many…dots", "…—–‘’“”«»‹›„‚•·",
    "¡¿¨¯´¸ªº˜ˆ˙˚", "NA", "null", "NaN", "undefined", "-1", "1e309", "0x0", "٠١٢٣", "½ ² ₂ ① Ⅷ ㎏", "=1+1", "@SUM(A1)",
    "<script>alert(1)</script>", "'; DROP TABLE tickets; --", "${jndi:ldap://localhost/a}", "../../../../etc/passwd",
    "%s %n %x %d", "{0} {{}}", "\\", "\\u0000", "[PAD]", "[CLS] [SEP] [MASK] [UNK]", "[cls]refund[sep]", "##ing ##", "#",
    "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤", "a" + "\u0301" * 500, "e\u0301 é E\u0301 É", "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽",
    "refund 😡😡 pls 🙏", "😀" * 300, "ﷺ ﷽", "ﬁ ﬂ Ǆ ß ẞ İ ı ſ", "ΑΣ ΑΣΑ ς σ Σ", "𝕿𝖍𝖊 𝓻𝓸𝓾𝓽𝓮𝓻",
    "Ｆｕｌｌ ｗｉｄｔｈ，ｒｏｕｔｅｒ！", "\U0010ffff\U000e0001", "\ue000\uf8ff private", "\u0378\u0530 unassigned",
    "ab\u302ecd\u302f", "가각힣 \u1100\u1161\u11a8", "﹏﹐！（）％＃", "〈〉《》「」、。〜", "𠀀𪚥 豈 \u2f00 〇", "x" * 99,
    "x" * 100, "x" * 101, "я" * 51, "я" * 100, "я" * 101, "é" * 100, "é" * 101, "𝕿" * 101, "x" * 20_000, "a-" * 60,
    "refund " + "z" * 101 + " please",
)  # fmt: skip


def _long() -> list[str]:
    """Texts near and over 512 tokens, with different beginning, middle and end."""
    sentences = [line for line in _TICKETS if len(line) > 40]
    story = " ".join(sentences)
    return [
        "router " * 509,
        "router " * 510,
        "router " * 511,
        "refund. " * 1_000,
        story,
        " ".join(reversed(sentences)) + " " + story,
        "." * 3_000,
        "我的路由器坏了" * 120,
    ]


PARITY_TEXTS: Final = (*_TICKETS, *_OTHER_SCRIPTS, *_NAUGHTY, *_long())
