// Torques for a robot at a fixed rate: joint states in, effort commands out.
//
// All work is done in one thread, so the callbacks share their data without locks. None of them
// allocates memory; what the middleware does around them is its own affair.
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "featherlane_torque/controller.hpp"
#include "rclcpp/rclcpp.hpp"
#include "robot.hpp"
#include "sensor_msgs/msg/joint_state.hpp"
#include "std_msgs/msg/float64_multi_array.hpp"
#include "trajectory_msgs/msg/joint_trajectory.hpp"

namespace featherlane_torque
{

using sensor_msgs::msg::JointState;
using std_msgs::msg::Float64MultiArray;
using trajectory_msgs::msg::JointTrajectory;

class TorqueNode : public rclcpp::Node
{
public:
  TorqueNode()
  : Node("featherlane_torque"),
    controller_(declare_parameter("kp", 100.0), declare_parameter("kd", 20.0)),
    oldest_state_(seconds("state_timeout", 0.02)),
    oldest_reference_(seconds("reference_timeout", 0.1))
  {
    const std::vector<std::string> joints(Robot::joints.begin(), Robot::joints.end());
    // The effort controller's `joints` parameter, whose order its commands have
    const auto ordered = declare_parameter("command_joints", joints);
    if (ordered.size() != Robot::N || !command_.find(ordered)) {
      throw std::invalid_argument("command_joints must name every joint of the robot once");
    }
    message_.data.resize(Robot::N);  // the only allocation for commands

    // A state that comes late is worth nothing: the newest one, without repetition
    const auto newest = rclcpp::SensorDataQoS().keep_last(1);
    states_ = create_subscription<JointState>(
      "joint_states", newest, [this](const JointState & message) {on_state(message);});
    // References are few and all matter
    references_ = create_subscription<JointTrajectory>(
      "reference", rclcpp::QoS(1).reliable(),
      [this](const JointTrajectory & message) {on_reference(message);});
    commands_ = create_publisher<Float64MultiArray>("commands", rclcpp::QoS(1).reliable());
    const std::chrono::duration<double> period(1.0 / positive("rate", 1000.0));
    timer_ = create_wall_timer(period, [this] {on_timer();});
  }

private:
  double positive(const char * name, double value)
  {
    const double given = declare_parameter(name, value);
    if (!(given > 0.0 && std::isfinite(given))) {
      throw std::invalid_argument(std::string(name) + " must be a positive number");
    }
    return given;
  }

  rclcpp::Duration seconds(const char * name, double value)
  {
    return rclcpp::Duration::from_seconds(positive(name, value));
  }

  void on_state(const JointState & message)
  {
    if (controller_.set_state(message.name, message.position, message.velocity)) {
      state_time_ = now();
      has_state_ = true;
    }
  }

  void on_reference(const JointTrajectory & message)
  {
    if (message.points.empty()) {
      controller_.release();  // an empty trajectory lets go
      follows_ = false;
      return;
    }
    const auto & point = message.points.front();
    follows_ = controller_.set_reference(
      message.joint_names, point.positions, point.velocities, point.accelerations);
    if (follows_) {
      reference_time_ = now();
    } else {
      controller_.release();
      RCLCPP_WARN(get_logger(), "a reference lacks a joint or a number: gravity compensation");
    }
  }

  void on_timer()
  {
    const rclcpp::Time time = now();
    if (!has_state_ || time - state_time_ > oldest_state_) {
      // No command: the robot's driver has to notice that and to stop
      RCLCPP_WARN_THROTTLE(get_logger(), *get_clock(), 1000, "no fresh joint states");
      return;
    }
    if (follows_ && time - reference_time_ > oldest_reference_) {
      controller_.release();
      follows_ = false;
    }
    const auto & torques = controller_.torques();
    for (std::size_t i = 0; i < Robot::N; ++i) {
      message_.data[command_[i]] = torques[i];
    }
    commands_->publish(message_);
  }

  TorqueController<Robot> controller_;
  rclcpp::Duration oldest_state_, oldest_reference_;
  JointOrder<Robot> command_;
  Float64MultiArray message_;
  bool has_state_ = false, follows_ = false;
  rclcpp::Time state_time_, reference_time_;
  rclcpp::Subscription<JointState>::SharedPtr states_;
  rclcpp::Subscription<JointTrajectory>::SharedPtr references_;
  rclcpp::Publisher<Float64MultiArray>::SharedPtr commands_;
  rclcpp::TimerBase::SharedPtr timer_;
};

}  // namespace featherlane_torque

int main(int argc, char ** argv)
{
  rclcpp::init(argc, argv);
  rclcpp::spin(std::make_shared<featherlane_torque::TorqueNode>());
  rclcpp::shutdown();
  return 0;
}
