"""The loop around a simulated board, in C++: a DMA with bursts and pauses on both streams, a master
of AXI4-Lite, and a checker of the protocol, which all go on in each clock cycle.
"""

from __future__ import annotations

HARNESS = r"""
#include "Vdesign.h"
#include "verilated.h"
#include <cstring>
#include <memory>
#include <vector>

double sc_time_stamp() { return 0; }

typedef unsigned char byte;

template <typename Port> static void put(Port &port, const byte *from, long size) {
  byte bytes[sizeof(port)] = {0};
  std::memcpy(bytes, from, size < (long)sizeof(port) ? size : sizeof(port));
  std::memcpy(&port, bytes, sizeof(port));
}

template <typename Port> static std::vector<byte> get(const Port &port, long size) {
  std::vector<byte> bytes(size);
  std::memcpy(bytes.data(), &port, size < (long)sizeof(port) ? size : sizeof(port));
  return bytes;
}

// What valid promised: until ready, neither valid nor what it stands for may change
struct Promise {
  bool made = false;
  std::vector<byte> what;
  bool broken(bool valid, bool ready, const std::vector<byte> &now) {
    const bool wrong = made && (!valid || now != what);
    made = valid && !ready;
    what = now;
    return wrong;
  }
};

struct Board {
  std::unique_ptr<VerilatedContext> context{new VerilatedContext};
  std::unique_ptr<Vdesign> device{new Vdesign(context.get())};
  long size;  // bytes of a beat
  unsigned long random = 1, stalls = 0, burst = 16, pause = 0;
  std::vector<byte> given, taken;
  size_t sent = 0, room = 0;
  long in_burst = 0, out_burst = 0, in_pause = 0, out_pause = 0;
  bool ended = true, overflow = false;
  bool stopped = true;  // nobody is at the streams' ends
  unsigned long cycles = 0, violations = 0;
  Promise stream, answer, value;

  // xorshift: the same stalls on every machine
  unsigned long draw() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random >> 24;
  }
  bool stalled(long &waits) {
    if (waits > 0) return waits--;
    return (draw() & 255) < stalls;
  }
  void next_in_burst(long &count, long &waits) {
    if (++count < (long)burst) return;
    count = 0;
    waits = pause ? draw() % (pause + 1) : 0;
  }

  void offer() {
    if (device->s_axis_tvalid || sent >= given.size() || stalled(in_pause)) return;
    const long left = given.size() - sent, here = left < size ? left : size;
    byte keep[128] = {0};
    for (long n = 0; n < here; n++) keep[n / 8] |= 1 << n % 8;
    device->s_axis_tvalid = 1;
    device->s_axis_tlast = left <= size;
    put(device->s_axis_tdata, given.data() + sent, here);
    put(device->s_axis_tkeep, keep, sizeof(keep));
  }
  void check() {
    std::vector<byte> beat = get(device->m_axis_tdata, size);
    beat.push_back(device->m_axis_tlast);
    for (byte x : get(device->m_axis_tkeep, sizeof(device->m_axis_tkeep))) beat.push_back(x);
    if (stopped) stream.made = false;
    else violations += stream.broken(device->m_axis_tvalid, device->m_axis_tready, beat);
    violations += answer.broken(device->s_axi_bvalid, device->s_axi_bready,
                                {(byte)device->s_axi_bresp});
    std::vector<byte> read = get(device->s_axi_rdata, 4);
    read.push_back(device->s_axi_rresp);
    violations += value.broken(device->s_axi_rvalid, device->s_axi_rready, read);
  }
  void take() {
    next_in_burst(out_burst, out_pause);
    const std::vector<byte> beat = get(device->m_axis_tdata, size);
    if (taken.size() + size > room) overflow = true;
    else taken.insert(taken.end(), beat.begin(), beat.end());
    if (device->m_axis_tlast) ended = true;
  }
  void cycle() {
    offer();
    device->m_axis_tready = !ended && !overflow && !stalled(out_pause);
    device->eval();
    const bool accepted = device->s_axis_tvalid && device->s_axis_tready;
    check();
    if (device->m_axis_tvalid && device->m_axis_tready) take();
    device->aclk = 1;
    device->eval();
    device->aclk = 0;
    cycles++;
    if (!accepted) return;
    sent += size;
    device->s_axis_tvalid = 0;
    next_in_burst(in_burst, in_pause);
  }
  void stop() {
    given.clear();
    taken.clear();
    sent = room = 0;
    ended = stopped = true;
    overflow = false;
    in_burst = out_burst = in_pause = out_pause = 0;
    device->s_axis_tvalid = device->m_axis_tready = 0;
  }
  explicit Board(long bytes) : size(bytes) {
    device->aclk = device->aresetn = 0;
    device->s_axi_awvalid = device->s_axi_wvalid = device->s_axi_bready = 0;
    device->s_axi_arvalid = device->s_axi_rready = 0;
    stop();
    for (int n = 0; n < 8; n++) {
      device->aclk = n & 1;
      device->eval();
    }
    device->aclk = 0;
    device->aresetn = 1;
  }
};

extern "C" {

void *board_open(long size) { return new Board(size); }
void board_close(void *board) { delete (Board *)board; }

// stalls: of 256 cycles, so many without a beat on either side; pause: cycles after each burst
void board_pauses(void *handle, unsigned long seed, unsigned long stalls, unsigned long burst,
                  unsigned long pause) {
  Board &board = *(Board *)handle;
  board.random = seed * 0x9E3779B97F4A7C15ul | 1;
  board.stalls = stalls;
  board.burst = burst;
  board.pause = pause;
}

// AXI4-Lite; returns the response, -1 for none within 1,000 cycles
long board_write(void *handle, unsigned address, unsigned data, unsigned strobe) {
  Board &board = *(Board *)handle;
  Vdesign &device = *board.device;
  bool address_left = true, data_left = true;
  device.s_axi_awaddr = address;
  device.s_axi_wdata = data;
  device.s_axi_wstrb = strobe;
  device.s_axi_awvalid = 1;
  device.s_axi_bready = 0;
  for (int n = 0; n < 1000; n++) {
    device.s_axi_wvalid = data_left && n > 1;  // the data come after the address
    device.eval();
    const bool gone = device.s_axi_awvalid && device.s_axi_awready;
    const bool written = device.s_axi_wvalid && device.s_axi_wready;
    const bool answered = device.s_axi_bvalid && device.s_axi_bready;
    const long response = device.s_axi_bresp;
    board.cycle();
    if (gone) address_left = false;
    if (written) data_left = false;
    device.s_axi_awvalid = address_left;
    device.s_axi_bready = answered ? 0 : n > 4;
    if (!data_left) device.s_axi_wvalid = 0;
    if (answered) return response;
  }
  return -1;
}
long board_read(void *handle, unsigned address, unsigned *data) {
  Board &board = *(Board *)handle;
  Vdesign &device = *board.device;
  device.s_axi_araddr = address;
  device.s_axi_arvalid = 1;
  device.s_axi_rready = 0;
  for (int n = 0; n < 1000; n++) {
    device.eval();
    const bool gone = device.s_axi_arvalid && device.s_axi_arready;
    const bool answered = device.s_axi_rvalid && device.s_axi_rready;
    const long response = device.s_axi_rresp;
    *data = device.s_axi_rdata;
    board.cycle();
    if (gone) device.s_axi_arvalid = 0;
    device.s_axi_rready = answered ? 0 : n > 2;
    if (answered) return response;
  }
  return -1;
}

// Begins a packet of `bytes` and makes room for one of results
void board_start(void *handle, const byte *given, long bytes, long room) {
  Board &board = *(Board *)handle;
  board.given.assign(given, given + bytes);
  board.taken.clear();
  board.sent = 0;
  board.room = room;
  board.ended = board.overflow = board.stopped = false;
}
// 0: both packets have ended; 1: they have not within so many cycles; 2: no room for the results
long board_wait(void *handle, long limit) {
  Board &board = *(Board *)handle;
  for (long n = 0; n < limit && !board.overflow; n++) {
    if (board.sent >= board.given.size() && board.ended) return 0;
    board.cycle();
  }
  return board.overflow ? 2 : board.sent < board.given.size() || !board.ended;
}
long board_taken(void *handle, byte *results) {
  Board &board = *(Board *)handle;
  std::memcpy(results, board.taken.data(), board.taken.size());
  return board.taken.size();
}
void board_stop(void *handle) { ((Board *)handle)->stop(); }
unsigned long board_cycles(void *handle) { return ((Board *)handle)->cycles; }
unsigned long board_violations(void *handle) { return ((Board *)handle)->violations; }
}
"""
