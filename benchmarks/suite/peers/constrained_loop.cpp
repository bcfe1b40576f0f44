// Loops over Pinocchio's dynamics with constraints, and its impulses, with derivatives: points or bodies
// on the ground. Results are stored in (batch, ...) arrays, matrices column by column.
#include <pinocchio/algorithm/constrained-dynamics-derivatives.hpp>
#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/impulse-dynamics-derivatives.hpp>
#include <pinocchio/algorithm/impulse-dynamics.hpp>
#include <pinocchio/algorithm/proximal.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/serialization.hpp>

namespace pin = pinocchio;
using Constraint = pin::RigidConstraintModel;

template <class Value>
static void store(double* out, long i, const Value& value) {
  Eigen::Map<Eigen::MatrixXd>(out + i * value.size(), value.rows(), value.cols()) = value;
}

static void store_all(double** out, long i, const pin::Data& data, bool by_force) {
  long k = 0;
  store(out[k++], i, data.ddq_dq);
  store(out[k++], i, data.ddq_dv);
  if (by_force) store(out[k++], i, data.ddq_dtau);
  store(out[k++], i, data.dlambda_dq);
  store(out[k++], i, data.dlambda_dv);
  if (by_force) store(out[k++], i, data.dlambda_dtau);
}

// placements: of each contact, p (3) and R by rows (9) on its joint. impact: impulses, without tau.
// outputs: a (or v after the impact), force, and with derivatives those by q, v (, tau) of both.
extern "C" void constrained(const char* robot, long contacts, long rows, const long* joints,
                            const double* placements, long states, const double* q, const double* v,
                            const double* tau, double** outputs, long derivatives, long impact) {
  pin::Model model;
  model.loadFromText(robot);
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
    if (impact) {
      store(outputs[0], i, pin::impulseDynamics(model, data, qi, vi, models, datas, 0.0, settings));
      store(outputs[1], i, data.impulse_c);
      if (derivatives)
        pin::computeImpulseDynamicsDerivatives(model, data, models, datas, 0.0, settings);
    } else {
      store(outputs[0], i, pin::constraintDynamics(model, data, qi, vi, ui, models, datas, settings));
      store(outputs[1], i, data.lambda_c);
      if (derivatives)
        pin::computeConstraintDynamicsDerivatives(model, data, models, datas, settings);
    }
    if (derivatives) store_all(outputs + 2, i, data, !impact);
  }
}
