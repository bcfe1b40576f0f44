// A loop over MuJoCo's smooth dynamics: results stored in (batch, ...) arrays, in each thread an mjData of its own.
//
// The model is an mjModel of the library that is loaded already. Only what a function needs is called: no collisions,
// sensors, tendons, actuators or constraints.
#include "batch.h"

#include <mujoco/mujoco.h>

#include <algorithm>

struct Worker {
  const mjModel* m;
  std::unique_ptr<mjData, void (*)(mjData*)> owned;
  mjData* d;
  std::vector<mjtNum> bias, identity;

  explicit Worker(const mjModel* model)
      : m(model), owned(mj_makeData(model), mj_deleteData), d(owned.get()), bias(m->nv), identity(m->nv * m->nv) {
    for (int k = 0; k < m->nv; ++k) identity[k * m->nv + k] = 1;
  }

  void positions(const States<mjtNum>& s, long i) {
    std::copy_n(s.q + i * m->nq, m->nq, d->qpos);
    mj_kinematics(m, d);
    mj_comPos(m, d);
  }
  void velocities(const States<mjtNum>& s, long i) {
    std::copy_n(s.v + i * m->nv, m->nv, d->qvel);
    mj_comVel(m, d);
  }
  void factor() {
    mj_makeM(m, d);
    mj_factorM(m, d);
  }

  void inverse_dynamics(const States<mjtNum>& s, long i) {
    positions(s, i);
    velocities(s, i);
    std::copy_n(s.u + i * m->nv, m->nv, d->qacc);
    mj_rne(m, d, 1, s.out[0] + i * m->nv);
  }
  void forward_dynamics(const States<mjtNum>& s, long i) {
    positions(s, i);
    factor();
    velocities(s, i);
    mj_rne(m, d, 0, bias.data());
    for (int k = 0; k < m->nv; ++k) bias[k] = s.u[i * m->nv + k] - bias[k];
    mj_solveM(m, d, s.out[0] + i * m->nv, bias.data(), 1);
  }
  void mass_matrix(const States<mjtNum>& s, long i) {
    positions(s, i);
    mj_makeM(m, d);
    mj_fullM(m, d, s.out[0] + i * m->nv * m->nv);
  }
  void mass_matrix_inverse(const States<mjtNum>& s, long i) {
    positions(s, i);
    factor();
    mj_solveM(m, d, s.out[0] + i * m->nv * m->nv, identity.data(), m->nv);
  }
};

extern "C" void* make(const mjModel* model, int threads, char* error, int size) try {
  auto batch = std::make_unique<Batch<mjtNum>>();
  for (int k = 0; k < threads; ++k) {
    const auto w = std::make_shared<Worker>(model);
#define NAMED(name) {#name, [w](const States<mjtNum>& s, long i) { w->name(s, i); }}
    batch->workers.push_back({NAMED(inverse_dynamics), NAMED(forward_dynamics), NAMED(mass_matrix),
                              NAMED(mass_matrix_inverse)});
  }
  return batch.release();
} catch (const std::exception& e) {
  return failed(e.what(), error, size);
}

EXPORT_BATCH(mjtNum)
