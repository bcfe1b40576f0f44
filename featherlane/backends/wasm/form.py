"""What the code of a program is made of, whatever the language: `lanes` writes WebAssembly, which
computes with vectors of states, and `javascript` text, which computes with numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Form(ABC, Generic[T]):
    """Pieces of code. A value of the program lies in one place of memory, `unit` from the next."""

    unit: int

    @abstractmethod
    def joined(self, parts: Iterable[T]) -> T:
        """Pieces one after another."""

    @abstractmethod
    def number(self, x: float) -> T:
        """A constant."""

    @abstractmethod
    def load(self, address: int) -> T:
        """The value in a place of memory."""

    @abstractmethod
    def store(self, address: int, value: T) -> T:
        """Stores a value in a place of memory."""

    @abstractmethod
    def store_behind(self, offset: int, value: T) -> T:
        """Stores a value at an offset from the address that is the function's only parameter."""

    @abstractmethod
    def operation(self, op: str, operands: list[T], scratch: int) -> T:
        """An operation of the table. scratch: a local that it may use."""

    @abstractmethod
    def keep(self, local: int, value: T) -> T:
        """Gives a local its value. Locals are counted from the parameters on."""

    @abstractmethod
    def local(self, local: int) -> T:
        """The value of a local."""

    @abstractmethod
    def function(self, parameters: int, body: T, locals_: int = 0) -> int:
        """Adds a function of so many addresses, and gives its number."""

    @abstractmethod
    def call(self, function: int, parameters: int) -> T:
        """Calls a function with the caller's parameters."""

    @abstractmethod
    def call_to(self, function: int, address: int) -> T:
        """Calls a function that writes its results to an address."""
