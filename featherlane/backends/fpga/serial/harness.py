"""The loop around a simulated design with a serial line, in C++: a UART at its pins."""

from __future__ import annotations

HARNESS = r"""
#include "Vdesign.h"
#include "verilated.h"
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

double sc_time_stamp() { return 0; }

typedef unsigned char byte;

// A level of the line for so many sixteenths of a clock cycle
struct Level {
  bool high;
  long sixteenths;
};

struct Line {
  std::unique_ptr<VerilatedContext> context{new VerilatedContext};
  std::unique_ptr<Vdesign> device{new Vdesign(context.get())};
  long bit;  // sixteenths of a cycle
  std::deque<Level> levels;
  std::vector<byte> received;
  long credit = 0;  // sixteenths of the present level that have passed
  int place = 0;    // of the byte that comes: 0 none, 1 the start bit, 2 to 9 data, 10 the stop bit
  long timer = 0, broken = 0;
  byte latest = 0;
  unsigned long cycles = 0;

  void send_level() {
    if (levels.empty()) {
      device->RX_PIN = 1;
      credit = 0;
      return;
    }
    device->RX_PIN = levels.front().high;
    credit += 16;
    while (!levels.empty() && credit >= levels.front().sixteenths) {
      credit -= levels.front().sixteenths;
      levels.pop_front();
    }
  }
  void take_level(bool high) {
    if (place == 0) {
      if (high) return;
      place = 1;
      timer = bit / 2;
    } else if ((timer -= 16) < 0) {
      timer += bit;
      if (place >= 2 && place <= 9) latest = latest >> 1 | (high ? 128 : 0);
      if (place == 10) {
        if (high) received.push_back(latest);
        else broken++;
      }
      place = place == 10 || (place == 1 && high) ? 0 : place + 1;
    }
  }
  void cycle() {
    send_level();
    device->CLOCK_PIN = 1;
    device->eval();
    device->CLOCK_PIN = 0;
    device->eval();
    take_level(device->TX_PIN);
    cycles++;
  }
  explicit Line(long sixteenths) : bit(sixteenths) {
    device->CLOCK_PIN = 0;
    device->RX_PIN = 1;
    device->eval();
#ifdef RESET_PIN
    device->RESET_PIN = 1;
    for (int n = 0; n < 8; n++) cycle();
    device->RESET_PIN = 0;
    cycles = 0;
#endif
  }
};

extern "C" {

void *line_open(long sixteenths) { return new Line(sixteenths); }
void line_close(void *line) { delete (Line *)line; }

// A level for so many sixteenths of a cycle, behind all that is to be sent
void line_level(void *handle, long high, long sixteenths) {
  ((Line *)handle)->levels.push_back({high != 0, sixteenths});
}
void line_send(void *handle, const byte *bytes, long count) {
  Line &line = *(Line *)handle;
  for (long n = 0; n < count; n++) {
    line.levels.push_back({false, line.bit});
    for (int k = 0; k < 8; k++) line.levels.push_back({(bytes[n] >> k & 1) != 0, line.bit});
    line.levels.push_back({true, line.bit});
  }
}
// Takes up to `room` bytes; waits for one, but not for more than `patience` cycles after the last
// one was sent
long line_receive(void *handle, byte *bytes, long room, long patience) {
  Line &line = *(Line *)handle;
  for (long waited = 0; line.received.empty() && waited < patience; waited++) {
    if (!line.levels.empty()) waited = 0;
    line.cycle();
  }
  const long count = (long)line.received.size() < room ? line.received.size() : room;
  std::memcpy(bytes, line.received.data(), count);
  line.received.erase(line.received.begin(), line.received.begin() + count);
  return count;
}
void line_run(void *handle, long cycles) {
  while (cycles-- > 0) ((Line *)handle)->cycle();
}
unsigned long line_cycles(void *handle) { return ((Line *)handle)->cycles; }
}
"""


def harness(
    clock: str = "clock", rx: str = "rx", tx: str = "tx", reset: str | None = "reset"
) -> str:
    """The C++ of the loop, for the ports of a top module. reset: the port that is 1 for the first
    eight cycles, None if there is none.
    """
    pins = {"CLOCK": clock, "RX": rx, "TX": tx, "RESET": reset}
    names = [f"#define {name}_PIN {port}\n" for name, port in pins.items() if port]
    return "".join(names) + HARNESS
