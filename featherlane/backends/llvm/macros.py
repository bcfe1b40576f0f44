"""LLVM IR with five more instructions, for code that is written by hand.

| written                   | meaning                                                           |
| ------------------------- | ----------------------------------------------------------------- |
| %x = item T %list %k      | number k of a list of T, which take eight bytes each              |
| put T %x %list %k         | the same, stored                                                  |
| %x = field T %base n      | what lies n bytes behind a pointer                                |
| need %test                | goes on if the test holds, else to the label %no                  |
| each %k %first %end       | a loop over first <= k < end, which `again %k` closes             |
"""

from __future__ import annotations

import re

_MACROS = {
    r"(%\S+) = item (\S+) (\S+) (\S+)": """
  {0}.at = getelementptr inbounds {1}, ptr {2}, i64 {3}
  {0} = load {1}, ptr {0}.at, align 8""",
    r"(%\S+) = field (\S+) (\S+) (\S+)": """
  {0}.at = getelementptr inbounds i8, ptr {2}, i64 {3}
  {0} = load {1}, ptr {0}.at, align 4""",
    r"put (\S+) (\S+) (\S+) (\S+)": """
  %put.{line} = getelementptr inbounds {0}, ptr {2}, i64 {3}
  store {0} {1}, ptr %put.{line}, align 8""",
    r"need %(\S+)": """
  br i1 %{0}, label %{0}.yes, label %no
{0}.yes:""",
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
}


def expanded(text: str) -> str:
    """The text as plain LLVM IR."""
    return "\n".join(_line(number, line) for number, line in enumerate(text.splitlines()))


def _line(number: int, line: str) -> str:
    for pattern, written in _MACROS.items():
        if found := re.fullmatch(pattern, line.strip()):
            return written.format(*found.groups(), line=number).lstrip("\n")
    return line
