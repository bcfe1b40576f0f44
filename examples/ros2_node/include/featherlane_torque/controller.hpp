// Computed torque and gravity compensation of any robot, without ROS and without allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace featherlane_torque
{

// Where the joints of the robot stand in lists of names that others order.
template<class Robot>
class JointOrder
{
public:
  // Whether all joints of the robot are among the names. Others may be there too. The places are
  // looked up again only if the names have moved since the last call.
  bool find(const std::vector<std::string> & names)
  {
    for (std::size_t i = 0; i < Robot::N; ++i) {
      if (place_[i] < names.size() && names[place_[i]] == Robot::joints[i]) {
        continue;
      }
      const auto found = std::find(names.begin(), names.end(), Robot::joints[i]);
      if (found == names.end()) {
        return false;
      }
      place_[i] = static_cast<std::size_t>(found - names.begin());
    }
    return true;
  }

  // The place of joint i of the robot in the names that were found last.
  std::size_t operator[](std::size_t i) const {return place_[i];}

private:
  std::array<std::size_t, Robot::N> place_{};
};

// tau = ID(q, v, a_d + kp (q_d - q) + kd (v_d - v)) once there is a reference q_d, v_d, a_d, and
// the torque tau = ID(q, 0, 0) that holds the robot against gravity while there is none.
template<class Robot>
class TorqueController
{
public:
  using Vector = std::array<double, Robot::N>;
  using Numbers = std::vector<double>;
  using Names = std::vector<std::string>;

  // kp in 1/s^2, kd in 1/s: computed torque decouples the joints, so one value serves all of them.
  TorqueController(double kp, double kd)
  : kp_(kp), kd_(kd) {}

  // Takes a measured state, in any order. Returns false, and keeps the last one, if a joint is
  // missing, a list is too short or a number is not finite.
  bool set_state(const Names & names, const Numbers & position, const Numbers & velocity)
  {
    Vector q{}, v{};
    const bool complete = state_.find(names) && take(state_, names, position, q) &&
      take(state_, names, velocity, v);
    if (complete) {
      q_ = q, v_ = v;
    }
    return complete;
  }

  // Takes a reference, in any order; without velocities or accelerations (empty lists) those are 0.
  bool set_reference(
    const Names & names, const Numbers & position, const Numbers & velocity,
    const Numbers & acceleration)
  {
    Vector q{}, v{}, a{};
    const bool complete = reference_.find(names) && take(reference_, names, position, q) &&
      (velocity.empty() || take(reference_, names, velocity, v)) &&
      (acceleration.empty() || take(reference_, names, acceleration, a));
    if (complete) {
      q_wanted_ = q, v_wanted_ = v, a_wanted_ = a, follows_ = true;
    }
    return complete;
  }

  // Forgets the reference: gravity compensation from now on.
  void release() {follows_ = false;}

  // The torques of the joints in the robot's order, within its effort limits.
  const Vector & torques()
  {
    static constexpr Vector still{};
    if (follows_) {
      for (std::size_t i = 0; i < Robot::N; ++i) {
        a_[i] = a_wanted_[i] + kp_ * (q_wanted_[i] - q_[i]) + kd_ * (v_wanted_[i] - v_[i]);
      }
      Robot::inverse_dynamics(q_.data(), v_.data(), a_.data(), tau_.data());
    } else {
      Robot::inverse_dynamics(q_.data(), still.data(), still.data(), tau_.data());
    }
    for (std::size_t i = 0; i < Robot::N; ++i) {
      tau_[i] = std::clamp(tau_[i], -Robot::effort[i], Robot::effort[i]);
    }
    return tau_;
  }

private:
  // Reads a list into the robot's order. Returns whether it is complete and finite.
  static bool take(
    const JointOrder<Robot> & order, const Names & names, const Numbers & from, Vector & to)
  {
    if (from.size() != names.size()) {
      return false;
    }
    for (std::size_t i = 0; i < Robot::N; ++i) {
      to[i] = from[order[i]];
    }
    return std::all_of(to.begin(), to.end(), [](double x) {return std::isfinite(x);});
  }

  double kp_, kd_;
  bool follows_ = false;
  JointOrder<Robot> state_, reference_;
  Vector q_{}, v_{}, a_{}, tau_{}, q_wanted_{}, v_wanted_{}, a_wanted_{};
};

}  // namespace featherlane_torque
