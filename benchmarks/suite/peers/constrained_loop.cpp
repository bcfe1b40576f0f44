// A loop over Pinocchio's constrained dynamics: points or bodies on the ground, and their derivatives.
// Results are stored in (batch, ...) arrays, matrices column by column.
#include <pinocchio/algorithm/constrained-dynamics-derivatives.hpp>
#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/proximal.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

namespace pin = pinocchio;
using Constraint = pin::RigidConstraintModel;

template <class Value>
static void store(double* out, long i, const Value& value) {
  Eigen::Map<Eigen::MatrixXd>(out + i * value.size(), value.rows(), value.cols()) = value;
}

// placements: of each contact, p (3) and R by rows (9) on its joint. outputs: a, force, and if there are
// more than two, da by q, v, tau and dforce by q, v, tau.
extern "C" void constrained(const char* robot, long contacts, long rows, const long* joints,
                            const double* placements, long states, const double* q, const double* v,
                            const double* tau, double** outputs, long count) {
  static pin::Model model;
  static std::string read;
  if (read != robot) {
    model = pin::Model();
    model.loadFromText(robot);
    read = robot;
  }
  pin::Data data(model);
  std::vector<Constraint> models;
  std::vector<pin::RigidConstraintData> datas;
  for (long k = 0; k < contacts; ++k) {
    const double* x = placements + 12 * k;
    pin::SE3 at;
    at.translation() << x[0], x[1], x[2];
    at.rotation() << x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11];
    auto kind = rows == 3 ? pin::CONTACT_3D : pin::CONTACT_6D;
    models.emplace_back(kind, model, joints[k], at, pin::LOCAL);
    datas.emplace_back(models.back());
  }
  pin::ProximalSettings settings(1e-12, 0.0, 1);
  pin::initConstraintDynamics(model, data, models, datas);
  for (long i = 0; i < states; ++i) {
    Eigen::Map<const Eigen::VectorXd> qi(q + i * model.nq, model.nq), vi(v + i * model.nv, model.nv),
        ui(tau + i * model.nv, model.nv);
    store(outputs[0], i, pin::constraintDynamics(model, data, qi, vi, ui, models, datas, settings));
    store(outputs[1], i, data.lambda_c);
    if (count == 2) continue;
    pin::computeConstraintDynamicsDerivatives(model, data, models, datas, settings);
    store(outputs[2], i, data.ddq_dq);
    store(outputs[3], i, data.ddq_dv);
    store(outputs[4], i, data.ddq_dtau);
    store(outputs[5], i, data.dlambda_dq);
    store(outputs[6], i, data.dlambda_dv);
    store(outputs[7], i, data.dlambda_dtau);
  }
}
