"""A model of the link in bytes, and of a board behind it, with which the circuit and the driver are
compared.
"""

from featherlane.backends.fpga.serial import frames


class LinkModel:
    """A link whose tasks are answered at once. plan: its numbers; compute: bytes of a task's word
    to those of its result.
    """

    def __init__(self, plan, compute):
        self.plan, self.compute = plan, compute
        self.counters = dict.fromkeys(frames.COUNTERS, 0)
        self.frame, self.answers = b"", b""

    @property
    def _size(self):
        """The bytes of the frame that has begun."""
        return 1 + self.plan.payloads[self.frame[0]] + frames.CRC_BYTES

    def byte(self, value):
        """A byte comes."""
        if not self.frame and value not in (frames.TASK, frames.QUERY, frames.TEST):
            self._count("unknown")
            return
        self.frame += bytes([value])
        if len(self.frame) == self._size:
            frame, self.frame = self.frame, b""
            if frames.crc(frame):
                self._count("damaged")
            else:
                self._answer(frame[0], frame[1:-2])

    def broken(self):
        """A byte without a stop bit comes."""
        self._count("cut" if self.frame else "unknown")
        self.frame = b""

    def pause(self):
        """Nothing comes for a while."""
        if self.frame:
            self._count("cut")
        self.frame = b""

    def _count(self, name):
        self.counters[name] = (self.counters[name] + 1) % 256

    def _answer(self, kind, payload):
        if kind == frames.TASK:
            word = self.compute(payload[1:])
            self.answers += frames.frame(frames.RESULT, payload[:1] + word)
        elif kind == frames.QUERY:
            known = {**self.plan._asdict(), "version": frames.VERSION, "under_way": 0}
            fields = {**known, **self.counters}
            self.answers += frames.frame(
                frames.FACTS,
                b"".join(fields[n].to_bytes(size, "little") for n, size in frames.ANSWER.items()),
            )


class ModelledLine:
    """A transport to the model through a line with faults. to_board, to_host: by the number of a
    byte, what is done to it: a mask that is added, or None if it is lost.
    """

    def __init__(self, model, to_board, to_host):
        self.model, self.faults = model, (dict(to_board), dict(to_host))
        self.count, self.answers = [0, 0], b""

    def _changed(self, data, way):
        for value in data:
            fault = self.faults[way].get(self.count[way], 0)
            self.count[way] += 1
            if fault is not None:
                yield value ^ fault

    def write(self, data):
        for value in self._changed(data, 0):
            self.model.byte(value)
        self.answers += bytes(self._changed(self.model.answers, 1))
        self.model.answers = b""

    def read(self, count):
        data, self.answers = self.answers[:count], self.answers[count:]
        return data

    def quiet(self):
        self.model.pause()
        self.answers = b""

    def close(self):
        pass
