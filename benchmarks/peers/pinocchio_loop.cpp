// A C++ loop over Pinocchio's functions: one thread, results stored in (batch, ...) arrays.
//
// usage: pinocchio_loop ROBOT fixed|free STATES BATCH
//
// ROBOT is a URDF, or a model that Pinocchio's Python API saved as text (.txt), whose root is part of it.
// STATES is a file of doubles: q (batch x nq), v and u (batch x nv each), u being a or tau. Then, for each line
// "FUNCTION PASSES" on stdin, the median time of that many passes over the batch (after one more) is printed, in ns per
// state. Between lines the process sleeps, so that whoever drives it can time something else.
#include <pinocchio/multibody.hpp>
#include <pinocchio/parsers/urdf.hpp>
#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/cholesky.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/serialization.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using Eigen::MatrixXd;
using Eigen::VectorXd;
namespace pin = pinocchio;

template <class Call>
double median_ns(int batch, int passes, Call call) {
  std::vector<double> times;
  for (int i = 0; i < batch; ++i) call(i);  // fills the caches
  for (int r = 0; r < passes; ++r) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) call(i);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    times.push_back(took.count() / batch * 1e9);
  }
  std::nth_element(times.begin(), times.begin() + passes / 2, times.end());
  return times[passes / 2];
}

std::vector<VectorXd> rows(std::ifstream& file, int batch, int size) {
  std::vector<VectorXd> result(batch, VectorXd(size));
  for (auto& row : result) file.read(reinterpret_cast<char*>(row.data()), size * sizeof(double));
  return result;
}

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: %s ROBOT fixed|free STATES BATCH\n", argv[0]), 2;
  const int batch = std::atoi(argv[4]);
  pin::Model model;
  const std::string robot = argv[1];
  if (robot.size() > 4 && robot.substr(robot.size() - 4) == ".txt") model.loadFromText(robot);
  else if (std::string(argv[2]) == "free") pin::urdf::buildModel(argv[1], pin::JointModelFreeFlyer(), model);
  else pin::urdf::buildModel(argv[1], model);
  pin::Data data(model);
  const int nv = model.nv;
  std::ifstream file(argv[3], std::ios::binary);
  const auto q = rows(file, batch, model.nq), v = rows(file, batch, nv), u = rows(file, batch, nv);
  if (!file) return std::fprintf(stderr, "the states do not fit the robot: nq %d, nv %d\n", model.nq, nv), 1;

  MatrixXd vectors(nv, batch), first(nv * nv, batch), second(nv * nv, batch), third(nv * nv, batch);
  auto store = [&](MatrixXd& to, int i, const auto& value) {
    Eigen::Map<MatrixXd>(to.col(i).data(), value.rows(), value.cols()) = value;
  };
  const std::map<std::string, std::function<double(int)>> functions = {
      {"inverse_dynamics", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         store(vectors, i, pin::rnea(model, data, q[i], v[i], u[i]));
       }); }},
      {"forward_dynamics", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         store(vectors, i, pin::aba(model, data, q[i], v[i], u[i], pin::Convention::LOCAL));
       }); }},
      {"mass_matrix", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         data.M.setZero();
         pin::crba(model, data, q[i], pin::Convention::LOCAL);
         data.M.triangularView<Eigen::StrictlyLower>() = data.M.transpose();
         store(first, i, data.M);
       }); }},
      {"mass_matrix_inverse", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         pin::computeMinverse(model, data, q[i]);
         data.Minv.triangularView<Eigen::StrictlyLower>() = data.Minv.transpose();
         store(first, i, data.Minv);
       }); }},
      {"inverse_dynamics_derivatives", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         pin::computeRNEADerivatives(model, data, q[i], v[i], u[i]);
         store(first, i, data.dtau_dq);
         store(second, i, data.dtau_dv);
       }); }},
      {"forward_dynamics_derivatives", [&](int passes) { return median_ns(batch, passes, [&](int i) {
         pin::computeABADerivatives(model, data, q[i], v[i], u[i]);
         store(first, i, data.ddq_dq);
         store(second, i, data.ddq_dv);
         store(third, i, data.Minv);
       }); }},
  };
  std::string name;
  int passes;
  while (std::cin >> name >> passes) std::cout << functions.at(name)(passes) << std::endl;
}
