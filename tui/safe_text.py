"""The boundary for untrusted text: what a model, a file or an error message says, made safe to show.

A terminal obeys control characters: an escape sequence can clear the screen or write the clipboard, and
invisible format characters can make a text read otherwise than it is. ``visible`` turns each of them into a
visible form: C0 controls and DEL into control pictures, every other one into its code point, ``<U+202E>``.

Joiners are the exception, because emoji and many scripts are written with them. A zero-width joiner or
non-joiner stays between two characters that can join (emoji, Arabic, Syriac, Indic and South-East Asian
letters, Mongolian), and one variation selector stays after a character that can have variants. Anywhere
else, and in longer runs (a known way to hide data), they are shown. Tag characters are always shown, so the
three flags written with them (England, Scotland, Wales) come out spelled.
"""

from __future__ import annotations

import re
from functools import lru_cache

_JOINABLE = (
    "\u0600-\u061b\u061d-\u07bf\u0840-\u085f\u0860-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u17b3\u17b6-\u17ff"
    "\u1800-\u180a\u1820-\u18af\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_HAS_VARIANTS = (
    _JOINABLE + "#*0-9\u2010-\u2027\u2200-\u22ff\u3001-\u3163\u3165-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002fffd\U00030000-\U0003fffd"
)
_ALWAYS = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"  # soft hyphen, fillers, marks
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"  # separators, bidi controls, operators
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # lone surrogates, noncharacters
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and music format controls
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
)
_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSAFE = re.compile(
    rf"[{_ALWAYS}]"
    rf"|[{_JOINERS}](?![{_JOINABLE}])"
    # The character before may carry a variation selector of its own, as in a heart on fire.
    rf"|(?<![{_JOINABLE}])(?<![{_JOINABLE}]\ufe0f)[{_JOINERS}]"
    rf"|(?<![{_HAS_VARIANTS}])[{_SELECTORS}]"
)
_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "\u2421"}
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_OPEN_END = re.compile(rf"[{_JOINERS}]\Z")


@lru_cache(maxsize=256)
def _shown(char: str, ascii_only: bool) -> str:
    if char in _PICTURES and not ascii_only:
        return _PICTURES[char]
    return f"<U+{ord(char):04X}>"


def visible(text: str, keep: str = "\n", *, ascii_only: bool = False) -> str:
    """``text`` with every character that a terminal could obey, or hide, in a visible form.

    ``keep`` are control characters to leave: only ``\\n`` and ``\\t`` make sense. With ``ascii_only`` the
    forms it puts in are ASCII; the rest of the text stays as it is. Applying it twice changes nothing more.
    """
    return _convert(text, 0, keep, ascii_only)


def _convert(text: str, start: int, keep: str, ascii_only: bool) -> str:
    """``visible`` of ``text[start:]``; what stands before decides about a joiner at the start."""
    assert set(keep) <= {"\n", "\t"}, f"keep={keep!r} would let a control character through"
    parts = []
    for match in _UNSAFE.finditer(text, start):
        char = match[0]
        parts.append(text[start : match.start()])
        parts.append(char if char in keep else _shown(char, ascii_only))
        start = match.end()
    parts.append(text[start:])
    return "".join(parts)


class VisibleStream:
    """``visible`` for text that comes in parts: the outputs joined equal ``visible`` of the whole.

    A joiner at the end of a part is held back until the next part shows what it joins.
    """

    def __init__(self, keep: str = "\n", *, ascii_only: bool = False) -> None:
        self._keep = keep
        self._ascii_only = ascii_only
        self._before = ""
        self._held = ""

    def feed(self, part: str) -> str:
        """The visible form of what can be told so far."""
        text = self._held + part
        self._held = ""
        if _OPEN_END.search(text):
            text, self._held = text[:-1], text[-1]
        return self._convert(text)

    def finish(self) -> str:
        """What was held back."""
        text, self._held = self._held, ""
        return self._convert(text)

    def _convert(self, text: str) -> str:
        start = len(self._before)
        whole = self._before + text
        self._before = whole[-2:]
        return _convert(whole, start, self._keep, self._ascii_only)


def visible_bytes(piece: bytes, *, ascii_only: bool = False) -> str:
    """A token's bytes for a list of tokens: one line, spaces at the ends and line ends as glyphs.

    Bytes that are no whole UTF-8 character become chips such as ``<E2>``. With ``ascii_only`` a blank is
    shown as ``~``, and a tilde as the chip ``<7E>``, so that neither is taken for the other.
    """
    space, newline, tab = ("~", "\\n", "\\t") if ascii_only else ("\u00b7", "\u23ce", "\u2192")
    text = piece.decode("utf-8", "surrogateescape")
    if ascii_only:
        text = text.replace("~", "<7E>")
    body = text.strip(" ")
    if body:
        start = text.index(body)
        text = space * start + body + space * (len(text) - start - len(body))
    else:
        text = space * len(text)
    text = text.replace("\n", newline).replace("\t", tab)
    text = _ESCAPED_BYTE.sub(lambda match: f"<{ord(match[0]) - 0xDC00:02X}>", text)
    text = "".join(f"<U+{ord(c):04X}>" if c != " " and c >= "\x80" and c.isspace() else c for c in text)
    return visible(text, "", ascii_only=ascii_only)
