// What the compiled loops share: a batch split over threads, passes over it, and what they export.
//
// A loop exports, in C: a constructor of its own that returns a Batch, or null with the reason in
// `error`; and `run` and `destroy` from here. Arrays are rows of states; results that are matrices
// are (batch, nv * nv), column by column where the library keeps them so.
#pragma once
#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

template <class Scalar>
struct States {
  const Scalar *q, *v, *u;
  Scalar* out[3];
};

template <class Scalar>
using Function = std::function<void(const States<Scalar>&, long)>;  // of one state

// Where threads wait for each other between passes: awake at first, since passes are short.
struct Meeting {
  const long threads;
  std::atomic<long> here{0}, round{0};

  explicit Meeting(long threads) : threads(threads) {}
  void arrive() {
    const long mine = round.load();
    if (here.fetch_add(1) + 1 == threads) {
      here = 0;
      ++round;
    } else {
      for (long tries = 0; round.load() == mine; ++tries)
        if (tries > 2000) std::this_thread::yield();
    }
  }
};

template <class Scalar>
struct Batch {
  // One for each thread: the functions by name, on data that the thread owns.
  std::vector<std::map<std::string, Function<Scalar>>> workers;

  void passes(const std::string& name, long passes, long batch, const States<Scalar>& states) {
    const long threads = workers.size();
    Meeting meeting(threads);
    auto work = [&](long k) {
      const Function<Scalar>& function = workers[k].at(name);
      const long first = batch * k / threads, last = batch * (k + 1) / threads;
      for (long pass = 0; pass < passes; ++pass) {
        for (long i = first; i < last; ++i) function(states, i);
        if (threads > 1) meeting.arrive();
      }
    };
    std::vector<std::thread> others;
    for (long k = 1; k < threads; ++k) others.emplace_back(work, k);
    work(0);
    for (auto& other : others) other.join();
  }
};

inline void* failed(const char* what, char* error, int size) {
  std::snprintf(error, size, "%s", what);
  return nullptr;
}

#define EXPORT_BATCH(Scalar)                                                                       \
  extern "C" int run(void* self, const char* name, long passes, long batch, const Scalar* q,       \
                     const Scalar* v, const Scalar* u, Scalar* a, Scalar* b, Scalar* c) {          \
    auto* loop = static_cast<Batch<Scalar>*>(self);                                                \
    if (!loop->workers[0].count(name)) return 1;                                                   \
    loop->passes(name, passes, batch, {q, v, u, {a, b, c}});                                       \
    return 0;                                                                                      \
  }                                                                                                \
  extern "C" void destroy(void* self) { delete static_cast<Batch<Scalar>*>(self); }
