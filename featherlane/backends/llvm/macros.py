"""LLVM IR with macros for common sequences of instructions, for functions written by hand.

| macro                         | meaning                                                       |
| ----------------------------- | ------------------------------------------------------------- |
| ... $(instruction) ...        | the value of an instruction, which runs before the line       |
| item T %list %k               | element k of a list of T, eight bytes each                    |
| put T %x %list %k             | stores element k of such a list                               |
| field T %base n               | the T at an offset of n bytes from a pointer                  |
| at %base n                    | the address at an offset of n bytes from a pointer            |
| word %list %k                 | the address of word k of a list                               |
| record %list %k n             | the address of record k of a list whose records are n words   |
| need %test                    | continues if the test holds, else branches to the label %no   |
| when %test: label             | branches to the label if the test holds, else continues       |
| when %test: yes, no           | branches to one of two labels                                 |
| return T %x when %test        | returns if the test holds                                     |
| each %k %first %end           | a loop over first <= k < end, closed by `again %k`            |
| repeat %k                     | a loop over 0 <= k < n, run at least once, closed by          |
|                               | `again %k n`                                                  |

A test is a value, or a comparison by any predicate of icmp: `need eq ptr %a, %b`.
"""

from __future__ import annotations

import re

_MACROS = [
    (re.compile(pattern), expansion.lstrip("\n"))
    for pattern, expansion in {
        r"(%\S+) = item (\S+) (\S+) (\S+)": """
  {0}.at = getelementptr inbounds {1}, ptr {2}, i64 {3}
  {0} = load {1}, ptr {0}.at, align 8""",
        r"(%\S+) = field (\S+) (\S+) (\S+)": """
  {0}.at = getelementptr inbounds i8, ptr {2}, i64 {3}
  {0} = load {1}, ptr {0}.at, align 4""",
        r"(%\S+) = at (\S+) (\S+)": """
  {0} = getelementptr inbounds i8, ptr {1}, i64 {2}""",
        r"(%\S+) = word (\S+) (\S+)": """
  {0} = getelementptr inbounds i64, ptr {1}, i64 {2}""",
        r"(%\S+) = record (\S+) (\S+) (\S+)": """
  {0}.o = mul i64 {2}, {3}
  {0} = getelementptr inbounds i64, ptr {1}, i64 {0}.o""",
        r"put (\S+) (\S+) (\S+) (\S+)": """
  %{name}.at = getelementptr inbounds {0}, ptr {2}, i64 {3}
  store {0} {1}, ptr %{name}.at, align 8""",
        r"need %(\S+)": """
  br i1 %{0}, label %{0}.yes, label %no
{0}.yes:""",
        r"when (%\S+): (\S+), (\S+)": """
  br i1 {0}, label %{1}, label %{2}""",
        r"when %(\S+): (\S+)": """
  br i1 %{0}, label %{1}, label %{name}.on
{name}.on:""",
        r"return (\S+ \S+) when %(\S+)": """
  br i1 %{1}, label %{name}.return, label %{name}.on
{name}.return:
  ret {0}
{name}.on:""",
        r"each %(\S+) (\S+) (\S+)": """
  br label %{0}.before
{0}.before:
  br label %{0}.head
{0}.head:
  %{0} = phi i64 [ {1}, %{0}.before ], [ %{0}.next, %{0}.end ]
  %{0}.in = icmp ult i64 %{0}, {2}
  br i1 %{0}.in, label %{0}.body, label %{0}.done
{0}.body:""",
        r"again %(\S+)": """
  br label %{0}.end
{0}.end:
  %{0}.next = add i64 %{0}, 1
  br label %{0}.head
{0}.done:""",
        r"repeat %(\S+)": """
  br label %{0}.before
{0}.before:
  br label %{0}.body
{0}.body:
  %{0} = phi i64 [ 0, %{0}.before ], [ %{0}.next, %{0}.end ]""",
        r"again %(\S+) (\S+)": """
  br label %{0}.end
{0}.end:
  %{0}.next = add i64 %{0}, 1
  %{0}.more = icmp slt i64 %{0}.next, {1}
  br i1 %{0}.more, label %{0}.body, label %{0}.done
{0}.done:""",
    }.items()
]
_MACRO = re.compile(
    r"\$\(|^(need|when|return|each|again|repeat|put)\b|= (item|field|at|word|record)\b"
)
_COMPARISON = re.compile(r"(need|when|return \S+ \S+ when) (?=[a-z])(.*?)(: \S+(?:, \S+)?)?")


def expanded(text: str) -> str:
    """The text with every macro replaced by its LLVM IR."""
    lines = enumerate(text.splitlines())
    return "\n".join(_instructions(line.strip(), f"t{number}") for number, line in lines)


def _instructions(line: str, name: str) -> str:
    """A line as LLVM IR. name: the prefix of the names of its temporaries."""
    if not _MACRO.search(line):
        return line
    if match := _COMPARISON.fullmatch(line):
        line = f"{match[1]} $(icmp {match[2]}){match[3] or ''}"
    before, line = _hoisted(line, name)
    for pattern, expansion in _MACROS:
        if match := pattern.fullmatch(line):
            line = expansion.format(*match.groups(), name=name)
            break
    return "\n".join([*before, line])


def _hoisted(line: str, name: str) -> tuple[list[str], str]:
    """The instructions in $( ) of a line, and the line with their values instead of them."""
    before: list[str] = []
    while (start := line.find("$(")) >= 0:
        end, depth = start + 2, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        value = f"{name}.{len(before)}"
        before.append(_instructions(f"%{value} = {line[start + 2 : end - 1]}", value))
        line = f"{line[:start]}%{value}{line[end:]}"
    return before, line
