"""A corpus of hostile names, paths, headers and tokens; nothing here is a test.

Names are texts as an attacker would choose them, in raw form. `on_the_wire` writes one into an
address in several spellings.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

_DOTS = [
    "..",
    ".",
    "...",
    "../..",
    "..\\..",
    "/..",
    "../",
    "./.",
    "....//",
    "..;/",
    "..%00/",
    ". .",
]
_SYSTEM = [
    "/etc/passwd",
    "/proc/self/environ",
    "C:\\Windows\\win.ini",
    "\\\\host\\share",
    "file:///etc/shadow",
    "~root/.ssh/id_rsa",
    "CON",
    "NUL.txt",
    "aux.",
    "a" * 255 + "/../b",
    ".git/config",
    ".lochan/access.key",
    "access.key",
]
_POLICY = [
    "*",
    "**",
    "a*",
    "*a",
    "main*",
    "dev/*",
    "dev/",
    "dev",
    "dev2",
    "dev/../main",
    "sales.*",
    "sales",
    "sales2",
    "sales.",
    ".sales",
    "?",
    "[a-z]",
    "${user}",
    "{user}",
    "%(user)s",
    "$USER",
    "`id`",
    "$(id)",
    "' || true || '",
    '" || true || "',
    "') || (1==1",
    "\\'",
    "role == 'admin'",
    "true",
    "allow",
    "everyone",
    "admins",
    "admin",
    "system:sweep",
    "oidc:admin",
    "int/refs",
    "int/",
    "refs/heads/main",
    "HEAD",
    "-",
    "@",
    "main@",
    "main~1",
    "main^2",
    "main*1",
    "main@{0}",
]
_INJECTED = [
    "'; DROP TABLE lochan_rows; --",
    "1 OR 1=1",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "#{7*7}",
    "${jndi:ldap://127.0.0.1/a}",
    "a\r\nSet-Cookie: x=1",
    "a\nb",
    "a\rb",
    "a\tb",
    "a\0b",
    "\0",
    "\x1b[31mred",
    "\x7f",
    "\x80",
    "\ufeffmain",
    "main\u200b",
    "m\u0430in",
    "\u202eniam",
    "ma\u0000in",
    "\u2028",
    "\u0085",
    "main ",
    " main",
    "MAIN",
    "Main",
    "ma\u0131n",
    "e\u0301",
    "\u00e9",
    "\u1e9e",
    "\ufb01",
    "\uff0e\uff0e\uff0f",
    "\u2215",
    "\u2024",
    "\U0001f600",
    "\U0010ffff",
    "\ud7ff",
]
_LONG = [
    letter * count for letter in ("a", "é", "/", ".", "%", "\x01") for count in (256, 1_025, 7_000)
]
_SPECIAL = [chr(code) for code in range(1, 48)] + [chr(code) for code in range(58, 65)]
_AROUND = [f"a{chr(code)}b" for code in range(32, 48)] + [
    f"main{chr(code)}" for code in range(32, 48)
]

NAMES: tuple[str, ...] = tuple(
    dict.fromkeys([*_DOTS, *_SYSTEM, *_POLICY, *_INJECTED, *_LONG, *_SPECIAL, *_AROUND])
)

PATHS: tuple[bytes, ...] = (
    b"//api/v2/trees",
    b"/api//v2/trees",
    b"/api/v2//trees",
    b"/api/v2/trees//",
    b"/api/v2/trees/",
    b"/api/v2/./trees",
    b"/api/v2/../v2/trees",
    b"/api/v2/%2e%2e/v2/trees",
    b"/api/v2/%2E%2E%2Ftrees",
    b"/api/v2/trees%2fmain",
    b"/api/v2/trees/main%00",
    b"/api/v2/trees/%00",
    b"/api/v2/trees/%",
    b"/api/v2/trees/%2",
    b"/api/v2/trees/%zz",
    b"/api/v2/trees/%u002e",
    b"/api/v2/trees/%c0%ae%c0%ae",
    b"/api/v2/trees/%ed%a0%80",
    b"/api/v2/trees/%ff%fe",
    b"/api/v2/trees/%f5%80%80%80",
    b"/api/v2/trees/%C0%AF",
    b"/api/v2/trees/main;x=1",
    b"/api/v2/trees/main;/entries",
    b"/api/v2\\trees",
    b"/API/V2/trees",
    b"/api/v3/trees",
    b"/api/v2.0/trees",
    b"/r//api/v2/trees",
    b"/r/%2f/api/v2/trees",
    b"/r/../api/v2/trees",
    b"/r/default%2fapi/v2/trees",
    b"/r/default/../other/api/v2/trees",
    b"/r/DEFAULT/api/v2/trees",
    b"/r/default%00/api/v2/trees",
    b"/r/default/access/v1/users",
    b"/access/v1/../v1/users",
    b"/access/v1/users/..",
    b"/access/v1/users/%2e%2e",
    b"/access/v1/users/%2e%2e%2fpolicies%2fadmin",
    b"/access/v1/users/admin%2ftokens",
    b"/access/v1//users",
    b"/access/v1/users//tokens",
    b"/access/v1/users/admin/tokens/",
    b"/access/v1/users;/",
    b"/access/V1/users",
    b"/Access/v1/users",
    b"/access/v1/setup/",
    b"/access/v1/login/../users",
    b"/access/v1/status/../users",
    b"/access/v1/login;/users",
    b"/access/v1/users?token=x",
    b"/api/v2/trees?access_token=x",
    b"/api/v2/trees?authorization=Bearer%20x",
)

_ROWS = (
    {"alg": "none"},
    {"alg": "None"},
    {"alg": "nOnE"},
    {"alg": ""},
    {"alg": "HS256"},
    {"alg": 5},
    {},
)
_CLAIMS = (
    {"sub": "admin"},
    {"sub": "admin", "aud": "lochan", "iss": "lochan", "exp": 9_999_999_999},
    {"sub": "../admin", "exp": "never"},
    {"sub": ["admin"], "exp": 1e300},
    {},
)


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _jwts() -> Iterator[str]:
    for header in _ROWS:
        for claims in _CLAIMS:
            for signature in ("", "AAAA", "A" * 342):
                yield f"{_part(header)}.{_part(claims)}.{signature}"
    for key_id in (
        "../../dev/null",
        "'; --",
        "a" * 5_000,
        "\0",
        "http://127.0.0.1:1/keys",
        7,
        None,
        [],
        {},
    ):
        yield f"{_part({'alg': 'RS256', 'kid': key_id})}.{_part(_CLAIMS[1])}.AAAA"
    for name in ("jku", "x5u", "jwk", "x5c", "crit", "b64", "zip"):
        header = {"alg": "RS256", "kid": "1", name: "http://127.0.0.1:1/keys"}
        yield f"{_part(header)}.{_part(_CLAIMS[1])}.AAAA"
    yield from (
        "..",
        ".",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "a" * 9_000,
        f"{_part({})}..",
        "é.é.é",
        "\u2028.a.b",
    )
    yield _part(["alg", "none"]) + "." + _part([1]) + ".AAAA"
    yield base64.urlsafe_b64encode(b'{"alg":"none","alg":"RS256"}').decode() + ".e30.AAAA"
    yield base64.urlsafe_b64encode(b"[" * 6_000).decode() + ".e30.AAAA"


def _tokens() -> Iterator[str]:
    yield from (
        "lochan_",
        "lochan__",
        "lochan_a_",
        "lochan__a",
        "lochan_a_b",
        "lochan_a_b_c",
        "LOCHAN_a_b",
        "lochan_" + "a" * 26 + "_" + "b" * 43,
        "lochan_" + "a" * 5_000 + "_b",
        "lochan_../setup_x",
        "lochan_users/admin_x",
        "lochan_%00_x",
        "lochan_\x00_x",
        "lochan_a_\n",
        "null",
        "undefined",
        "true",
        "0",
        "-",
        "*",
    )


def _basics() -> Iterator[str]:
    for pair in (
        ":",
        "admin:",
        ":secret",
        "admin:admin",
        "admin:secret:more",
        "admin",
        "",
        "\0:\0",
        "*:*",
        "../setup:x",
        "é:ü",
        "a" * 3_000 + ":b",
        "a:" + "b" * 3_000,
        "' OR 1=1 --:x",
    ):
        yield base64.b64encode(pair.encode()).decode()
    yield from (
        "",
        "=",
        "====",
        "!!!!",
        "YQ",
        "YQ==YQ==",
        "/w==",
        base64.b64encode(b"\xff:\xfe").decode(),
    )


def _schemes() -> Iterator[str]:
    token = "lochan_" + "a" * 26 + "_" + "b" * 43
    yield from (
        "",
        "Bearer",
        "bearer",
        "BEARER",
        "Bearer ",
        "Bearer  ",
        "Basic",
        "Basic ",
        "Digest x",
        "Negotiate x",
        "Token x",
        "AWS4-HMAC-SHA256 Credential=x",
        "AWS x:y",
        f"Bearer{token}",
        f"Bearer\t{token}",
        f"Bearer {token} {token}",
        f"Bearer {token},{token}",
        f"Bearer {token}, Basic YTpi",
        f"Basic {token}",
        f"Bearer token={token}",
        f"{token}",
        f"\u00a0Bearer {token}",
        f'Bearer "{token}"',
    )


AUTHORIZATIONS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(f"Bearer {text}" for text in _jwts()),
            *(f"Bearer {text}" for text in _tokens()),
            *(f"Basic {text}" for text in _basics()),
            *_schemes(),
        ]
    )
)

HEADERS: tuple[tuple[str, str], ...] = (
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-User", "admin"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "admin.example"),
    ("Forwarded", "for=127.0.0.1;proto=https;by=admin"),
    ("X-Real-IP", "::1"),
    ("X-Remote-User", "admin"),
    ("Remote-User", "admin"),
    ("X-User", "admin"),
    ("X-Auth-Token", "admin"),
    ("X-Api-Key", "admin"),
    ("Proxy-Authorization", "Basic YWRtaW46YWRtaW4="),
    ("Cookie", "internal_auth_session=admin; token=admin"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Original-URL", "/access/v1/users"),
    ("X-Rewrite-URL", "/access/v1/users"),
    ("Origin", "null"),
    ("Referer", "http://127.0.0.1/access/v1/setup"),
    ("Idempotency-Key", "../../x"),
    ("Nessie-Commit-Authors", "admin"),
    ("If-Match", '"*"'),
    ("Traceparent", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"),
    ("Content-Type", "application/json; charset=utf-7"),
    ("Accept-Encoding", "gzip;q=9999999999"),
    ("Expect", "200-ok"),
    ("Range", "bytes=0-99999999999999999999"),
)


def on_the_wire(name: str) -> tuple[bytes, ...]:
    """Returns a name as one segment of an address: with few escapes, and with all."""
    raw = name.encode("utf-8", "surrogatepass")
    few = quote(raw, safe="!$&'()*+,;=:@~-._").encode()
    every = b"".join(b"%%%02X" % byte for byte in raw)
    return tuple(dict.fromkeys((few, every)))
