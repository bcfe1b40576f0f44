// A loop over Pinocchio's functions: results stored in (batch, ...) arrays, in each thread a Data of its own.
//
// A robot is a URDF, or a model that Pinocchio's Python API saved as text (.txt), whose root is part of it.
// Compiled with -DSCALAR=double or float; matrices are stored column by column, symmetric ones full.
#include "batch.h"

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

namespace pin = pinocchio;
using Model = pin::ModelTpl<SCALAR>;
using Data = pin::DataTpl<SCALAR>;
using Vector = Eigen::Matrix<SCALAR, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<SCALAR, Eigen::Dynamic, Eigen::Dynamic>;

static pin::Model read(const std::string& robot, bool free) {
  pin::Model model;
  if (robot.size() > 4 && robot.substr(robot.size() - 4) == ".txt") model.loadFromText(robot);
  else if (free) pin::urdf::buildModel(robot, pin::JointModelFreeFlyer(), model);
  else pin::urdf::buildModel(robot, model);
  return model;
}

// The functions of one thread, with what they are computed in.
struct Worker {
  std::shared_ptr<const Model> model;
  std::shared_ptr<Data> data;
  Vector q, v, u;

  explicit Worker(std::shared_ptr<const Model> m)
      : model(m), data(std::make_shared<Data>(*m)), q(m->nq), v(m->nv), u(m->nv) {}

  void load(const States<SCALAR>& s, long i) {
    q = Eigen::Map<const Vector>(s.q + i * model->nq, model->nq);
    v = Eigen::Map<const Vector>(s.v + i * model->nv, model->nv);
    u = Eigen::Map<const Vector>(s.u + i * model->nv, model->nv);
  }
  template <class Value>
  void store(const States<SCALAR>& s, int block, long i, const Value& value) {
    Eigen::Map<Matrix>(s.out[block] + i * value.size(), value.rows(), value.cols()) = value;
  }

  void inverse_dynamics(const States<SCALAR>& s, long i) {
    load(s, i);
    store(s, 0, i, pin::rnea(*model, *data, q, v, u));
  }
  void forward_dynamics(const States<SCALAR>& s, long i) {
    load(s, i);
    store(s, 0, i, pin::aba(*model, *data, q, v, u, pin::Convention::LOCAL));
  }
  void mass_matrix(const States<SCALAR>& s, long i) {
    load(s, i);
    data->M.setZero();
    pin::crba(*model, *data, q, pin::Convention::LOCAL);
    data->M.template triangularView<Eigen::StrictlyLower>() = data->M.transpose();
    store(s, 0, i, data->M);
  }
  void mass_matrix_inverse(const States<SCALAR>& s, long i) {
    load(s, i);
    pin::computeMinverse(*model, *data, q);
    data->Minv.template triangularView<Eigen::StrictlyLower>() = data->Minv.transpose();
    store(s, 0, i, data->Minv);
  }
  void inverse_dynamics_derivatives(const States<SCALAR>& s, long i) {
    load(s, i);
    pin::computeRNEADerivatives(*model, *data, q, v, u);
    store(s, 0, i, data->dtau_dq);
    store(s, 1, i, data->dtau_dv);
  }
  void forward_dynamics_derivatives(const States<SCALAR>& s, long i) {
    load(s, i);
    pin::computeABADerivatives(*model, *data, q, v, u);
    data->Minv.template triangularView<Eigen::StrictlyLower>() = data->Minv.transpose();
    store(s, 0, i, data->ddq_dq);
    store(s, 1, i, data->ddq_dv);
    store(s, 2, i, data->Minv);
  }
};

extern "C" void* make(const char* robot, int free, int threads, char* error, int size) try {
  const auto model = std::make_shared<const Model>(read(robot, free).cast<SCALAR>());
  auto batch = std::make_unique<Batch<SCALAR>>();
  for (int k = 0; k < threads; ++k) {
    const auto w = std::make_shared<Worker>(model);
#define NAMED(name) {#name, [w](const States<SCALAR>& s, long i) { w->name(s, i); }}
    batch->workers.push_back({NAMED(inverse_dynamics), NAMED(forward_dynamics), NAMED(mass_matrix),
                              NAMED(mass_matrix_inverse), NAMED(inverse_dynamics_derivatives),
                              NAMED(forward_dynamics_derivatives)});
  }
  return batch.release();
} catch (const std::exception& e) {
  return failed(e.what(), error, size);
}

EXPORT_BATCH(SCALAR)
