"""The loop around a simulated design, in C++: feeds the words of all states, with random stalls."""

DRIVER = r"""
#include "Vdesign.h"
#include "verilated.h"
#include <cstring>
#include <memory>

double sc_time_stamp() { return 0; }

// xorshift: the same stalls on every machine
static unsigned long next(unsigned long *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state >> 24 & 255;
}

template <typename Port> static void put(Port &port, const unsigned char *word, long size) {
  unsigned char bytes[sizeof(port)] = {0};
  std::memcpy(bytes, word, size < (long)sizeof(port) ? size : sizeof(port));
  std::memcpy(&port, bytes, sizeof(port));
}

template <typename Port> static void get(const Port &port, unsigned char *word, long size) {
  std::memcpy(word, &port, size < (long)sizeof(port) ? size : sizeof(port));
}

// Words of given_size and result_size bytes; returns how many states came out. behind: how many
// results must be out before each state is offered, or none if null.
extern "C" long simulate(const unsigned char *given, unsigned char *results, long *accepted,
                         long *emitted, const long *behind, long given_size, long result_size,
                         long states, unsigned long seed, unsigned long stalls,
                         unsigned long limit) {
  auto context = std::make_unique<VerilatedContext>();
  auto device = std::make_unique<Vdesign>(context.get());
  unsigned long random = seed * 0x9E3779B97F4A7C15ul | 1;
  long in = 0, out = 0;
  device->in_valid = device->out_ready = 0;
  device->reset = 1;
  for (int n = 0; n < 8; n++) {
    device->clock = n & 1;
    device->eval();
  }
  device->clock = 0;
  device->reset = 0;
  for (unsigned long cycle = 1; cycle <= limit && out < states; cycle++) {
    const bool offers = !device->in_valid && in < states && (!behind || out >= behind[in]);
    if (offers && next(&random) >= stalls) {
      device->in_valid = 1;
      put(device->in_data, given + in * given_size, given_size);
    }
    device->out_ready = next(&random) >= stalls;
    device->eval();
    const bool taken = device->in_valid && device->in_ready;
    if (device->out_valid && device->out_ready) {
      get(device->out_data, results + out * result_size, result_size);
      emitted[out++] = cycle;
    }
    device->clock = 1;
    device->eval();
    device->clock = 0;
    if (taken) {
      accepted[in++] = cycle;
      device->in_valid = 0;
    }
  }
  device->final();
  return out;
}
"""
