// The controller without ROS: messages as lines on stdin, torques on stdout, a line for each state.
//
//   state NAMES POSITIONS VELOCITIES
//   reference NAMES POSITIONS VELOCITIES ACCELERATIONS
//   release
//
// Lists are a number of entries and the entries. A line that is refused prints `refused`. The exit
// status is 1 if the controller allocates memory.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "featherlane_torque/controller.hpp"
#include "robot.hpp"

static long allocations = 0;

void * operator new(std::size_t size)
{
  ++allocations;
  if (void * memory = std::malloc(size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void * memory) noexcept {std::free(memory);}
void operator delete(void * memory, std::size_t) noexcept {std::free(memory);}

// Strings are read and parsed here: streams do not read the words nan and inf as numbers.
template<class T>
static std::vector<T> list()
{
  std::size_t size = 0;
  std::cin >> size;
  std::vector<T> entries;
  for (std::string word; entries.size() < size && std::cin >> word; ) {
    if constexpr (std::is_same_v<T, double>) {
      entries.push_back(std::strtod(word.c_str(), nullptr));
    } else {
      entries.push_back(word);
    }
  }
  return entries;
}

int main()
{
  featherlane_torque::TorqueController<Robot> controller(100.0, 20.0);
  long ours = 0;
  for (std::string kind; std::cin >> kind; ) {
    if (kind == "release") {
      controller.release();
      continue;
    }
    const auto names = list<std::string>();
    const auto position = list<double>(), velocity = list<double>();
    const auto acceleration = kind == "reference" ? list<double>() : std::vector<double>();
    const long before = allocations;
    if (kind == "reference") {
      const bool taken = controller.set_reference(names, position, velocity, acceleration);
      ours += allocations - before;
      if (!taken) {
        std::puts("refused");
      }
      continue;
    }
    const bool taken = controller.set_state(names, position, velocity);
    const auto & torques = controller.torques();
    ours += allocations - before;
    if (!taken) {
      std::puts("refused");
      continue;
    }
    for (double torque : torques) {
      std::printf("%.17g ", torque);
    }
    std::puts("");
  }
  return ours > 0;
}
