"""Names that are valid in C, and in C++ that includes the header."""

from __future__ import annotations

import re
import unicodedata
import zlib

KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while
    alignas alignof bool constexpr false nullptr static_assert thread_local true typeof
    and and_eq asm bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield
    compl concept const_cast consteval constinit decltype delete dynamic_cast explicit export
    friend mutable namespace new noexcept not not_eq operator or or_eq private protected public
    reinterpret_cast requires static_cast template this throw try typeid typename using virtual
    wchar_t xor xor_eq
    NULL INFINITY NAN HUGE_VAL EOF errno assert linux unix i386 near far
"""  # of C99, of C11 and C23, of C++, and macros
KEYWORD_SET = frozenset(re.findall(r"\w+", KEYWORDS))
RESERVED = re.compile(
    r"t\d+|work|states|stride|lane|lanes|first|shared|operands|results|(fl|FL|FEATHERLANE)_\w*|"
    r"(abs|fabs|sqrt|fma|copysign)f?|memcpy|size_t|u?int\d+_t|U?INT\d+_(MAX|MIN)"
)
HEADERS_AND_TARGETS = """
    complex ctype fenv inttypes limits locale math setjmp signal stdarg stddef stdint stdio stdlib
    string tgmath time wchar
    all clean help install m package test
"""  # of C, and of CMake
FILES = frozenset(HEADERS_AND_TARGETS.split())


def check_identifier(name: str, what: str) -> str:
    """Returns the name, if generated code can use it.

    Raises ValueError if it is no name in C or C++, or if the generated code uses such names.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or "__" in name:
        wanted = "wanted letters, digits and single underscores, a letter first"
        raise ValueError(f"{what} {name!r} cannot be a name in C: {wanted}")
    if name in KEYWORD_SET:
        raise ValueError(f"{what} {name!r} means something else in C or C++: give it another name")
    if RESERVED.fullmatch(name):
        raise ValueError(f"{what} {name!r} is a name in the generated code: give it another one")
    return name


def check_argument(name: str, what: str) -> str:
    """Returns the name, if it can be an argument's. Raises ValueError as `check_identifier` does,
    and for names in capitals, which may be macros.
    """
    if re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", name):
        raise ValueError(f"{what} {name!r} may be a macro of a C header: use small letters")
    return check_identifier(name, what)


def check_start(name: str, what: str) -> str:
    """Returns the name, if it can be the prefix of functions and files.

    Raises ValueError as `check_identifier` does, and for the name of a header or of a target.
    """
    check_identifier(name, what)
    if name.endswith("_"):
        raise ValueError(f"{what} {name!r} ends in an underscore: another one comes behind it")
    if name.lower() in FILES:
        advice = "a header of C or a target of CMake has that name: give it another one"
        raise ValueError(f"{what} {name!r} is taken: {advice}")
    return name


def identifier(text: str) -> str:
    """A name of C that resembles a text: "UR5e (left)" gives "ur5e_left". Letters that C does not
    have leave a number, by which names stay different.
    """
    plain = unicodedata.normalize("NFKD", text.lower())
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    if any(c.isalnum() and not c.isascii() for c in text):
        name = f"{name}_{zlib.crc32(text.encode()) % 10**6}".strip("_")
    if not name or name[0].isdigit() or name in KEYWORD_SET | FILES or RESERVED.fullmatch(name):
        name = f"robot_{name}".rstrip("_")
    return name


def comment(text: str) -> str:
    """The text in one line that does not end a comment."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    for wrong, right in (("*/", "* /"), ("/*", "/ *"), ("\\", "|"), ("??", "? ?")):
        line = line.replace(wrong, right)
    return line
