"""Makes bert_golden.npz and bert_texts.json: outputs of Hugging Face's BertModel for minilm-l6.

Run where torch and transformers are installed (they are no dependencies of bertcnn):

    python make_bert_golden.py FOLDER_OF_MINILM_L6

The checkpoint's pooler is replaced by random weights (POOLER_SEED, drawn with NumPy), because the
published one was never trained; the test repeats `random_pooler`. Every text is run in a padded
batch of 8 and alone; both must agree.

bert_texts.json: "batches", lists of 8 texts each, and "tokenizer_only", texts with ids only.
bert_golden.npz: `ids` and `id_counts` (all texts, one after another), and for the texts in batches
`positions` int [rows, 4], `sequence` float32 [rows, 4, D] (sequence_output there), `mean` float32
[rows, D] (over a text's tokens), `pooled` float32 [rows, D].
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
POOLER_SEED = 20181011
POSITION_SEED = 1

SHORT = [
    "",
    "a",
    "7",
    "?",
    "é",
    "Z",
    "ok",
    "no internet",
    "My router's led is not working.",
    "PLEASE CALL ME BACK!!!",
    "🤬",
    "🤬🤬 no signal 📶❌ again 👨‍👩‍👧 since 9am",
    "the wifi is sooooo slooooow",
    "refund? refund. refund!",
    "naïve café, Ångström, Zürich, señor, œuvre",
    "don't can't won't it's o'clock",
    "لا يعمل الإنترنت في منزلي منذ يومين",
    "路由器的灯不亮了",
    "मेरा इंटरनेट काम नहीं कर रहा है",
    "อินเทอร์เน็ตใช้งานไม่ได้",
    "Роутер не работает",
    "האינטרנט לא עובד",
    "인터넷이 안 돼요",
    "ルーターが壊れました",
]
MIDDLE = [
    (
        "billing billing billing billing billing billing billing billing billing billing billing"
        " billing billing billing"
    ),
    "My router's led is not working, I tried changing the power socket but still nothing.",
    (
        "You billed me £49.99 twice on 03/07/2025 (invoice #AB-10293/7), and €12,50 the month"
        " before; refund both, please."
    ),
    (
        "see https://example.com/a/b?c=d&e=f%20g#h or mail me at jane.doe+isp@example.co.uk, ref"
        " T-10001/x_y"
    ),
    (
        "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // 0x1F 1e-9 ~/bin/run.sh --force &&"
        " echo $?"
    ),
    (
        "ERROR 651: The modem (or other connecting device) has reported an"
        " error.\r\n\r\nC:\\Users\\me> ping 8.8.8.8 -t"
    ),
    "tabs\tand\nnewlines\r\n and   many    spaces \u00a0 and\u2003wide ones",
    "“smart quotes” – dashes — and… ellipses • bullets ™ ® © ½ ² ³ № ℃ ﬁ",
    (
        "Hello, 你好, שלום, Привет, γειά σου, こんにちは, สวัสดี, नमस्ते, مرحبا, 안녕하세요 all in"
        " one ticket about my Wi-Fi"
    ),
    (
        "thank you SO much, three weeks of 'we are looking into it', truly the best support i have"
        " ever had. cancel my contract."
    ),
    (
        "wlan wlan1 wlan-2 wlan_3 802.11ax 5GHz 2.4ghz WPA2/WPA3 192.168.0.1 fe80::1%eth0"
        " 00:1A:2B:3C:4D:5E"
    ),
    (
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft is one"
        " word and so is antidisestablishmentarianism"
    ),
    "x" * 100 + " " + "y" * 101 + " a word of 100 letters and one of 101",
    (
        "A technician came on Tuesday, looked at the box, said it was the cable, went away, and now"
        " neither the box nor the cable does anything, the television shows a blue screen, and my"
        " daughter has an exam online tomorrow at nine. What am I supposed to do?"
    ),
    (
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33"
        " 34 35 36 37 38 39 40 41 42 43 44 45"
    ),
    ". , ; : ! ? - _ ( ) [ ] { } < > / \\ | @ # $ % ^ & * + = ~ ` ' \"",
    (
        "Der Router blinkt rot, seit gestern Abend geht gar nichts mehr. Können Sie bitte jemanden"
        " schicken?"
    ),
    (
        "La facture de juillet est fausse : vous m'avez compté deux fois l'abonnement, ça fait"
        " 89,90 € de trop."
    ),
    "El técnico nunca vino; llevo ocho días sin señal y nadie contesta. ¿Hasta cuándo?",
    "Tôi không thể kết nối mạng từ hôm qua, xin hãy giúp đỡ.",
    "İstanbul'da internet yok, ışıklar yanmıyor",
    (
        "i ordered the 500 plan in may, the app shows 500, speedtest shows 48, your chat told me to"
        " restart, i restarted eleven times"
    ),
    "𝕱𝖆𝖓𝖈𝖞 𝓁𝑒𝓉𝓉𝑒𝓇𝓈 ａｎｄ ｆｕｌｌｗｉｄｔｈ ones, z̷a̷l̷g̷o̷ t̴e̴x̴t̴ and 🏳️‍🌈 flags 🇩🇪",
    (
        "zero\u200bwidth, soft\u00adhyphen, \ufeffbyte order mark, \u202eright to left\u202c,"
        " bell\u0007 and \ufffd replacement"
    ),
]
_STORY = (
    "First the light on the router went from green to orange, then my son restarted it, then it"
    " went off altogether. I called you on Monday and waited for forty minutes, on Tuesday the line"
    " was cut, on Wednesday a friendly person promised a new device by Friday. It is the following"
    " Thursday. In the meantime you sent me an invoice with a fee for a visit that never took"
    " place. "
)
LONG = [
    _STORY,
    "water " * 510,  # 512 tokens with [CLS] and [SEP]
    _STORY * 4,
    "",
    "路由器" * 60,
    "short in a long batch",
    "🤬",
    "the bill for " + " ".join(f"{number}.{number % 10}0 euro" for number in range(100, 190)),
]
TOKENIZER_ONLY = [
    " ",
    "\n",
    "\u00a0",
    "\u200b",
    "\ufffd",
    "\u0300\u0301",
    "e\u0301 é ÉCOLE",
    "ǅ ŉ ß ẞ İ ı ſ K Å",
    "ÀÉÎÕÜ àéîõü",
    "don’t “quote” it…",
    "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg",
    "tab\tline\rfeed\u0001\u0002\u007f\u0080",
    "㐀𠀀豈 CJK extensions 𪜀 and ﷺ",
    "カタカナ ｶﾀｶﾅ がぎぐ",
    "각각 한국어",
    "สวัสดีครับ ไทย",
    "नमस्ते दुनिया क्षत्रिय",
    "क़ ख़ ग़",
    "¡Hola! ¿Qué? «guillemets» ‹single›",
    "´ ` ^ ¨ ~ ¯ ¸ symbols that are not letters",
    "$5 £5 €5 ¥5 ₹5 ₿5 5¢",
    "±×÷≠≤≥∞∑√∫",
    "→←↑↓⇒⇔",
    "①②③ Ⅷ ⅷ ¼ ⁵ ₅",
    "#hashtag @user_name under_score a-b-c a/b/c a.b.c a,b",
    "C++ C# .NET node.js v1.2.3-rc.4+build",
    "unaffable unwanted running ##ing ##",
    "x" * 99 + " " + "é" * 100 + " " + "é" * 101,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "\ue000\uf8ff private \U000f0000",
    "\u0378\u0379 unassigned",
    "़ ् combining alone",
]


def random_pooler(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Kernel float32 [in, out] and bias float32 [out]."""
    generator = np.random.default_rng(POOLER_SEED)
    return generator.normal(0, 0.05, (width, width)).astype(np.float32), generator.normal(
        0, 0.05, width
    ).astype(np.float32)


def load(folder: str) -> transformers.BertModel:
    model = transformers.BertModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    kernel, bias = random_pooler(model.config.hidden_size)
    with torch.no_grad():
        model.pooler.dense.weight.copy_(torch.from_numpy(kernel.T))
        model.pooler.dense.bias.copy_(torch.from_numpy(bias))
    return model


@torch.no_grad()
def run(model: transformers.BertModel, ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    length = max(map(len, ids))
    padded = torch.tensor([row + [0] * (length - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in ids])
    output = model(input_ids=padded, attention_mask=mask, token_type_ids=torch.zeros_like(padded))
    return output.last_hidden_state.numpy(), output.pooler_output.numpy()


def main(folder: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = load(folder)
    texts = [*SHORT, *MIDDLE, *LONG]
    batches = [texts[start : start + 8] for start in range(0, len(texts), 8)]
    ids = [
        tokenizer(text, truncation=False, padding=False)["input_ids"]
        for text in [*texts, *TOKENIZER_ONLY]
    ]
    generator = np.random.default_rng(POSITION_SEED)
    positions, sequence, mean, pooled, worst = [], [], [], [], 0.0
    for number in range(len(batches)):
        rows = ids[8 * number : 8 * number + 8]
        hidden, pools = run(model, rows)
        for row, token_ids in enumerate(rows):
            last = len(token_ids) - 1
            places = [0, last // 2, last, int(generator.integers(len(token_ids)))]
            alone, pool_alone = run(model, [token_ids])
            worst = max(
                worst,
                np.abs(alone[0] - hidden[row, : last + 1]).max(),
                np.abs(pool_alone[0] - pools[row]).max(),
            )
            positions.append(places)
            sequence.append(hidden[row, places])
            mean.append(hidden[row, : last + 1].mean(axis=0))
            pooled.append(pools[row])
    assert max(map(len, ids)) == 512
    assert worst < 1e-5, worst
    np.savez_compressed(
        HERE / "bert_golden.npz",
        ids=np.concatenate(ids).astype(np.int32),
        id_counts=np.array([len(row) for row in ids], np.int32),
        positions=np.array(positions, np.int32),
        sequence=np.array(sequence),
        mean=np.array(mean),
        pooled=np.array(pooled),
    )
    content = {"batches": batches, "tokenizer_only": TOKENIZER_ONLY}
    (HERE / "bert_texts.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    size = (HERE / "bert_golden.npz").stat().st_size
    sys.stdout.write(
        f"transformers {transformers.__version__}, torch {torch.__version__}: {len(texts)} texts,"
        f" {len(ids)} tokenized, {size:,} bytes\nlengths {[len(row) for row in ids[: len(texts)]]};"
        f" alone and in a batch differ by at most {worst:.1e}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
