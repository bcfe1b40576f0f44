"""The tasks of a run on their way to a board and back: which frames go out next, which results are
still to come, and which were lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from featherlane.backends.fpga.serial import frames


class Exchange:
    """Tasks that go to a board, as many at a time as it takes, and a query behind the last one, so
    that a state takes one way there and back.

    sent: the frames of the tasks; limit: how many may be on the board; number: of the task of a
    result, -1 for another frame; payloads: the bytes of each kind of answer. results: the words
    that have come, by task; answer: to the query; repeated: the tasks that were sent twice.
    """

    def __init__(
        self,
        sent: Sequence[bytes],
        limit: int,
        number: Callable[[frames.SerialFrame], int],
        payloads: Mapping[int, int],
    ) -> None:
        self._sent, self._limit, self._number = sent, limit, number
        self._queue, self._waiting = deque(range(len(sent))), dict[int, int]()
        self._bytes = {kind: 1 + size + frames.CRC_BYTES for kind, size in payloads.items()}
        self._is_asked = False
        self.results, self.repeated = [b""] * len(sent), set[int]()
        self.answer: dict[str, int] | None = None

    @property
    def waits(self) -> bool:
        """Whether a task is on the board."""
        return bool(self._waiting)

    @property
    def is_over(self) -> bool:
        """Whether all results and the answer have come."""
        return not self._queue and not self._waiting and self.answer is not None

    @property
    def expected(self) -> int:
        """The bytes that are to come for what was sent."""
        answers = self._is_asked and self.answer is None
        return self._bytes[frames.RESULT] * len(self._waiting) + self._bytes[frames.FACTS] * answers

    def next_frames(self) -> bytes:
        """The frames of as many tasks as the board has room for; they move from the queue to those
        that wait, by their numbers.
        """
        chosen, queue, waiting = list[bytes](), self._queue, self._waiting
        while queue and len(waiting) < self._limit:
            frame = self._sent[queue[0]]
            if (number := frame[1]) in waiting:
                break
            waiting[number] = queue.popleft()
            chosen.append(frame)
        if not queue and not self._is_asked:
            self._is_asked = True
            chosen.append(frames.frame(frames.QUERY))
        return b"".join(chosen)

    def take(self, frame: frames.SerialFrame) -> None:
        """Takes a frame of the board: a result that is waited for, or the answer."""
        task = self._waiting.pop(self._number(frame), -1)
        if task >= 0:
            self.results[task] = frame.payload[1:]
        elif frame.kind == frames.FACTS and self._is_asked:
            self.answer = frames.answer_fields(frame.payload)

    def lose(self) -> int:
        """Puts the tasks that wait back into the queue; returns how many were lost before."""
        lost = [*self._waiting.values()]
        again = len(self.repeated.intersection(lost))
        self.repeated.update(lost)
        self._queue.extendleft(reversed(lost))
        self._waiting.clear()
        self._is_asked, self.answer = False, None
        return again
