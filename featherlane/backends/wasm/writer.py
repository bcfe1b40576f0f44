"""The interface of a target language for the code of a program: `assembly` writes WebAssembly,
which computes with vectors of states, and `javascript` writes text, which computes with numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class CodeWriter(ABC, Generic[T]):
    """Writes pieces of code. Values of the program are in memory, at multiples of `unit`."""

    unit: int

    @abstractmethod
    def joined(self, parts: Iterable[T]) -> T:
        """The pieces one after another."""

    @abstractmethod
    def number(self, x: float) -> T:
        """A constant."""

    @abstractmethod
    def load(self, address: int) -> T:
        """Loads the value at an address."""

    @abstractmethod
    def store(self, address: int, value: T) -> T:
        """Stores a value at an address."""

    @abstractmethod
    def store_behind(self, offset: int, value: T) -> T:
        """Stores a value at an offset from the address that is the function's only parameter."""

    @abstractmethod
    def operation(self, op: str, operands: list[T], scratch: int) -> T:
        """An operation of the table. scratch: a local that it may use."""

    @abstractmethod
    def keep(self, local: int, value: T) -> T:
        """Sets a local to a value. Locals are counted from the parameters on."""

    @abstractmethod
    def local(self, local: int) -> T:
        """The value of a local."""

    @abstractmethod
    def function(self, parameters: int, body: T, locals_: int = 0) -> int:
        """Adds a function of so many addresses, and returns its number."""

    @abstractmethod
    def call(self, function: int, parameters: int) -> T:
        """Calls a function with the caller's parameters."""

    @abstractmethod
    def call_to(self, function: int, address: int) -> T:
        """Calls a function that writes its results to an address."""
