"""The loop around a simulated design with serial lines, in C++: a UART at its pins, or one at those
of each of many boards that share a clock, whose pins are the bits of words.
"""

from __future__ import annotations

MOST_BOARDS = 64  # those of a word

HARNESS = r"""
#include "Vdesign.h"
#include "verilated.h"
#include <algorithm>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

double sc_time_stamp() { return 0; }

typedef unsigned char byte;
typedef unsigned long long word;
// All times are sixteenths of a clock cycle since the reset
typedef long long Time;
const Time CYCLE = 16, NEVER = LLONG_MAX;
const word ALL = BOARDS == 64 ? ~0ull : (1ull << BOARDS % 64) - 1;

// A level of a line for so long
struct Level {
  bool high;
  Time length;
};

struct Line {
  std::deque<Level> levels;
  Time end = 0;  // of the first of the levels
  std::vector<byte> received;
  int place = 0;  // of the byte that comes: 0 none, 1 the start bit, 2 to 9 data, 10 the stop bit
  Time due = NEVER;  // of the next sample: it is taken in the first cycle behind
  byte latest = 0;
  bool waits = false, wants_bytes = false;  // it waits for bytes, or for a time alone
  Time quiet = 0;     // when the last level ended, or the wait began
  Time patience = 0;  // the longest wait after that
};

struct Boards {
  std::unique_ptr<VerilatedContext> context{new VerilatedContext};
  std::unique_ptr<Vdesign> device{new Vdesign(context.get())};
  Time bit, now = 0;
  Line lines[BOARDS];
  word rx = ALL, idle = ALL;
  Time next_level = NEVER, next_sample = NEVER, next_limit = NEVER;
  bool arrived = false;  // a byte for a board that waits

  void send_levels() {
    next_level = NEVER;
    for (int n = 0; n < BOARDS; n++) {
      Line &line = lines[n];
      if (line.levels.empty()) continue;
      while (!line.levels.empty() && now >= line.end) {
        line.levels.pop_front();
        if (!line.levels.empty()) line.end += line.levels.front().length;
      }
      if (line.levels.empty()) {
        line.quiet = now;
        find_limit();
        rx |= 1ull << n;
      } else {
        rx = (rx & ~(1ull << n)) | (word)line.levels.front().high << n;
        next_level = std::min(next_level, line.end);
      }
    }
  }
  void take_levels(word tx) {
    for (word starts = ~tx & idle; starts; starts &= starts - 1) {
      Line &line = lines[__builtin_ctzll(starts)];
      line.place = 1;
      line.due = now + bit / 2;
      next_sample = std::min(next_sample, line.due);
    }
    idle &= tx;
    if (now <= next_sample) return;
    next_sample = NEVER;
    for (int n = 0; n < BOARDS; n++) {
      Line &line = lines[n];
      if (now > line.due) {
        const bool high = tx >> n & 1;
        if (line.place >= 2 && line.place <= 9) line.latest = line.latest >> 1 | (high ? 128 : 0);
        if (line.place == 10 && high) {
          line.received.push_back(line.latest);
          arrived |= line.waits && line.wants_bytes;
        }
        const bool ends = line.place == 10 || (line.place == 1 && high);
        line.place = ends ? 0 : line.place + 1;
        line.due = ends ? NEVER : line.due + bit;
        if (ends) idle |= 1ull << n;
      }
      next_sample = std::min(next_sample, line.due);
    }
  }
  void cycle() {
    if (now >= next_level) send_levels();
    device->RX_PIN = rx;
    device->CLOCK_PIN = 1;
    device->eval();
    device->CLOCK_PIN = 0;
    device->eval();
    take_levels(device->TX_PIN);
    now += CYCLE;
  }
  // The time at which one of the boards that wait has waited for long enough
  void find_limit() {
    next_limit = NEVER;
    for (Line &line : lines)
      if (line.waits && line.levels.empty())
        next_limit = std::min(next_limit, line.quiet + line.patience);
  }
  // The boards whose wait is over
  word over() {
    word done = 0;
    for (int n = 0; n < BOARDS; n++) {
      Line &line = lines[n];
      const bool late = line.levels.empty() && now >= line.quiet + line.patience;
      if (line.waits && (late || (line.wants_bytes && !line.received.empty()))) {
        line.waits = false;
        done |= 1ull << n;
      }
    }
    find_limit();
    return done;
  }
  explicit Boards(Time bit) : bit(bit) {
    device->CLOCK_PIN = 0;
    device->RX_PIN = ALL;
    device->eval();
#ifdef RESET_PIN
    device->RESET_PIN = ALL;
    for (int n = 0; n < 8; n++) cycle();
    device->RESET_PIN = 0;
    now = 0;
#endif
  }
  void send(int number, bool high, Time length) {
    Line &line = lines[number];
    if (line.levels.empty()) {
      line.end = now + length;
      rx = (rx & ~(1ull << number)) | (word)high << number;
      next_level = std::min(next_level, line.end);
    }
    line.levels.push_back({high, length});
  }
};

extern "C" {

void *boards_open(long bit) { return new Boards(bit); }
void boards_close(void *handle) { delete (Boards *)handle; }

// A level for so many sixteenths of a cycle, behind all that is to be sent
void boards_level(void *handle, int number, long high, long length) {
  ((Boards *)handle)->send(number, high != 0, length);
}
void boards_send(void *handle, int number, const byte *bytes, long count) {
  Boards &boards = *(Boards *)handle;
  for (long n = 0; n < count; n++) {
    boards.send(number, false, boards.bit);
    for (int k = 0; k < 8; k++) boards.send(number, bytes[n] >> k & 1, boards.bit);
    boards.send(number, true, boards.bit);
  }
}
// A board waits for so many cycles after its last byte was sent, or at most so for one to come
void boards_wait(void *handle, int number, long cycles, int wants_bytes) {
  Boards &boards = *(Boards *)handle;
  Line &line = boards.lines[number];
  line.waits = true;
  line.wants_bytes = wants_bytes;
  line.quiet = boards.now;
  line.patience = cycles * CYCLE;
}
// Time goes on until boards that wait do so no longer: their bits
word boards_run(void *handle) {
  Boards &boards = *(Boards *)handle;
  word done = boards.over();
  while (!done) {
    boards.arrived = false;
    while (!boards.arrived && boards.now < boards.next_limit) boards.cycle();
    done = boards.over();
  }
  return done;
}
// The bytes that have come, up to `room` of them
long boards_take(void *handle, int number, byte *bytes, long room) {
  std::vector<byte> &received = ((Boards *)handle)->lines[number].received;
  const long count = std::min((long)received.size(), room);
  std::memcpy(bytes, received.data(), count);
  received.erase(received.begin(), received.begin() + count);
  return count;
}
unsigned long boards_cycles(void *handle) { return ((Boards *)handle)->now / CYCLE; }
}
"""


def harness(
    clock: str = "clock",
    rx: str = "rx",
    tx: str = "tx",
    reset: str | None = "reset",
    boards: int = 1,
) -> str:
    """The C++ of the loop, for the ports of a top module. reset: the port that is 1 for the first
    eight cycles, None if there is none; boards: how many, of which each has a bit of each port.
    """
    pins = {"CLOCK": clock, "RX": rx, "TX": tx, "RESET": reset}
    names = [f"#define {name}_PIN {port}\n" for name, port in pins.items() if port]
    return "".join([f"#define BOARDS {boards}\n", *names]) + HARNESS
