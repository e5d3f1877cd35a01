"""Strings that somebody might take for a host, made from honest ones by what has fooled other programs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASES = (
    *("example.com", "api.example.com", "a.b.c.d.example.org", "localhost", "my_bucket.example.com", "EXAMPLE.COM."),
    *("127.0.0.1", "10.0.0.1", "8.8.8.8", "255.255.255.255", "127.1", "0x7f.1", "0x7f000001", "017700000001"),
    *("2130706433", "0", "1.1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4.", "a.1", "a.0x1f", "0x.com"),
    *("[::1]", "::1", "[2001:db8::1]", "2001:DB8:0:0:0:0:0:1", "::ffff:127.0.0.1", "[::ffff:7f00:1]", "fe80::1%lo"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "1e3", "0b1.0o7", "bücher.example", "ⓛocalhost", "１２７.0.0.1", "a。b"),
    *("evil.example@example.com", "example.com#x", "example.com?x", "example.com/x", "example.com\\x", "%65xample.com"),
    *("example.com%00.test", "-a.example", "a-.example", "r3---sn.example", "xn--a", "xn--localhost-"),
    *("xn--bcher-kva.example", "XN--BCHER-KVA.example", "metadata.google.internal"),
)
_PIECES = (
    *map(chr, range(0x21)),
    *"\x7f\x80\x85\xa0\xad.-_:%@/\\#?;,[](){}<>\"'`|^~!$&*+=0123456789abcdefxABCXZ",
    *"\u200b\u200c\u200d\u202e\u2024\u3002\uff0e\uff61\u00ad\u0130\u0131\u017f\u212a\ufeff\uff11\u0661\ud800",
    *("xn--", "0x", "::", "..", "%2e", "%00", ".local", "localhost", "127.0.0.1", "a" * 64, "a." * 130),
)


def hostile_hosts(count: int, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(_BASES)
        for _change in range(chance.choice((0, 0, 1, 1, 1, 2, 3))):
            at = chance.randrange(len(text) + 1)
            match chance.randrange(5):
                case 0:
                    text = text[:at] + chance.choice(_PIECES) + text[at:]
                case 1:
                    text = text[:at] + text[at + 1 :]
                case 2:
                    text = text[:at] + chance.choice(_PIECES) + text[at + 1 :]
                case 3:
                    text = f"{text}.{chance.choice(_BASES)}"
                case _:
                    text = text[:at] + text[at:].swapcase()
        yield text
