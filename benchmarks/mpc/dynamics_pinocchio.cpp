// Steps of the fourth order and their A and B by Pinocchio, for all knots of a horizon, on threads.
//
// The integrator is featherlane's (algorithms/integrators.py): Kutta's method in local coordinates
// about the beginning of the step (Munthe-Kaas 1998). Only the free joint is curved, so that its
// maps are 6 x 6. Forces act at the feet in the world's axes.
#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/parsers/urdf.hpp>

#include <atomic>
#include <cstring>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace pin = pinocchio;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Matrix6 = Eigen::Matrix<double, 6, 6>;
using Vector6 = Eigen::Matrix<double, 6, 1>;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Given = Eigen::Map<const Vector>;

namespace {

constexpr int ROOT = 6;

struct Foot {
  pin::JointIndex joint;
  Eigen::Vector3d place;       // in the joint's axes
  std::vector<int> supports;   // the freedoms that move it
};

struct Robot {
  pin::Model model;
  std::vector<Foot> feet;
};

// How configuration and rate of a stage change with the motion u to it and with its velocity
struct Maps {
  Matrix6 before, with_u, rate_by_u, rate_by_v;
};

Matrix6 ad(const Vector6& v) {
  return pin::Motion(v).toActionMatrix();
}

Vector local_rate(const Vector& u, const Vector& v) {
  Vector rate = v;
  const Vector6 first = ad(u.head<ROOT>()) * v.head<ROOT>();
  rate.head<ROOT>() += 0.5 * first + ad(u.head<ROOT>()) * first / 12.0;
  return rate;
}

Maps maps(const Vector& u, const Vector& v) {
  Maps found;
  const pin::Motion motion(Vector6(u.head<ROOT>()));
  found.before = pin::exp6(motion).toActionMatrixInverse();
  pin::Jexp6(motion, found.with_u);
  const Matrix6 U = ad(u.head<ROOT>()), V = ad(v.head<ROOT>());
  const Matrix6 turned = ad(U * v.head<ROOT>());
  found.rate_by_v = Matrix6::Identity() + 0.5 * U + U * U / 12.0;
  found.rate_by_u = -0.5 * V - (turned + U * V) / 12.0;
  return found;
}

class Worker {
 public:
  explicit Worker(const Robot& robot)
      : robot_(robot), model_(robot.model), data_(robot.model), n_(robot.model.nv),
        controls_(n_ - ROOT + 3 * int(robot.feet.size())), columns_(2 * n_ + controls_),
        wrenches_(model_.njoints, pin::Force::Zero()), slopes_(n_, 2 * n_), by_u_(n_, controls_) {
    for (auto* D : {&D_, &first_}) D->setZero(2 * n_, columns_);
    for (auto* D : {&Dr_, &Da_, &Dr_sum_, &Da_sum_}) D->setZero(n_, columns_);
    first_.leftCols(2 * n_).setIdentity();
  }

  void step(Given q, Given v, Given u, Given f, double dt, double* q_next, double* v_next) {
    Vector a[4], rate[4];
    for (int s = 0; s < 4; ++s) {
      to_stage(s, q, v, dt, rate, a);
      act(f, q_);
      a[s] = pin::aba(model_, data_, q_, v_, forces(u), wrenches_, pin::Convention::LOCAL);
    }
    end(q, v, dt, rate, a, q_next, v_next);
  }

  void linearise(Given q, Given v, Given u, Given f, double dt, double* q_next, double* v_next,
                 double* A, double* B) {
    Vector a[4], rate[4];
    const double weights[] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    for (int s = 0; s < 4; ++s) {
      to_stage(s, q, v, dt, rate, a);
      if (s > 0) to_stage_linear(s, dt);
      act(f, q_);
      pin::computeABADerivatives(model_, data_, q_, v_, forces(u), wrenches_);
      a[s] = data_.ddq;
      slopes(f);
      if (s == 0) {
        Da_ << slopes_, by_u_;
        Dr_ = first_.bottomRows(n_);
        Da_sum_ = weights[0] * Da_;
        Dr_sum_ = weights[0] * Dr_;
        continue;
      }
      if (s == 1) after_first(dt);
      else Da_.noalias() = slopes_ * D_;
      Da_.rightCols(controls_) += by_u_;
      Da_sum_ += weights[s] * Da_;
      Dr_sum_ += weights[s] * Dr_;
    }
    end(q, v, dt, rate, a, q_next, v_next);
    Maps at = maps(motion_, motion_);
    Eigen::Map<Rows> to_A(A, 2 * n_, 2 * n_), to_B(B, 2 * n_, controls_);
    Dr_sum_ *= dt;
    moved(at, Dr_sum_);
    Da_sum_ *= dt;
    Da_sum_.middleCols(n_, n_).diagonal().array() += 1.0;
    to_A << Dr_sum_.leftCols(2 * n_), Da_sum_.leftCols(2 * n_);
    to_B << Dr_sum_.rightCols(controls_), Da_sum_.rightCols(controls_);
  }

 private:
  Vector forces(Given u) {
    Vector tau = Vector::Zero(n_);
    tau.tail(n_ - ROOT) = u;
    return tau;
  }

  // The state of a stage, its rate, and the motion to it
  void to_stage(int s, Given q, Given v, double dt, Vector* rate, const Vector* a) {
    if (s == 0) {
      q_ = q;
      v_ = rate[0] = v;
      return;
    }
    const double h = s == 3 ? dt : dt / 2;
    motion_ = h * rate[s - 1];
    v_ = v + h * a[s - 1];
    q_ = pin::integrate(model_, q, motion_);
    rate[s] = local_rate(motion_, v_);
  }

  void to_stage_linear(int s, double dt) {
    const double h = s == 3 ? dt : dt / 2;
    const Maps at = maps(motion_, v_);
    auto Dq = D_.topRows(n_), Dv = D_.bottomRows(n_);
    Dr_ *= h;  // how the motion changes
    const Matrix of_rate = at.rate_by_u * Dr_.topRows<ROOT>();
    Dq = Dr_;
    moved(at, Dq);
    Dv = first_.bottomRows(n_) + h * Da_;
    Dr_ = Dv;
    Dr_.topRows<ROOT>() = of_rate + at.rate_by_v * Dv.topRows<ROOT>();
  }

  // From how a motion changes to how the configuration after it does
  template <class D>
  void moved(const Maps& at, D&& changes) {
    changes.template topRows<ROOT>() = (at.with_u * changes.template topRows<ROOT>()).eval();
    changes.template topLeftCorner<ROOT, ROOT>() += at.before;
    changes.block(ROOT, ROOT, n_ - ROOT, n_ - ROOT).diagonal().array() += 1.0;
  }

  // The second stage's configuration changes with q and v through diagonal matrices, but for the root
  void after_first(double dt) {
    Da_.noalias() = slopes_.rightCols(n_) * D_.bottomRows(n_);
    const auto by_q = slopes_.leftCols(n_);
    Da_.leftCols<ROOT>() += by_q.leftCols<ROOT>() * D_.topLeftCorner<ROOT, ROOT>();
    Da_.middleCols<ROOT>(n_) += by_q.leftCols<ROOT>() * D_.block<ROOT, ROOT>(0, n_);
    Da_.middleCols(ROOT, n_ - ROOT) += by_q.rightCols(n_ - ROOT);
    Da_.middleCols(n_ + ROOT, n_ - ROOT) += 0.5 * dt * by_q.rightCols(n_ - ROOT);
  }

  void act(Given f, const Vector& q) {
    pin::forwardKinematics(model_, data_, q);
    for (std::size_t i = 0; i < robot_.feet.size(); ++i) {
      const Foot& foot = robot_.feet[i];
      const Eigen::Vector3d own = data_.oMi[foot.joint].rotation().transpose() * f.segment<3>(3 * i);
      wrenches_[foot.joint] = pin::Force(own, foot.place.cross(own));
    }
  }

  // Derivatives of the acceleration by q and v, and by joint torques and forces
  void slopes(Given f) {
    data_.Minv.triangularView<Eigen::StrictlyLower>() = data_.Minv.transpose();
    slopes_ << data_.ddq_dq, data_.ddq_dv;
    by_u_.leftCols(n_ - ROOT) = data_.Minv.rightCols(n_ - ROOT);
    for (std::size_t i = 0; i < robot_.feet.size(); ++i) {
      const Foot& foot = robot_.feet[i];
      const Eigen::Vector3d at = data_.oMi[foot.joint].act(foot.place), force = f.segment<3>(3 * i);
      auto by_f = by_u_.middleCols<3>(n_ - ROOT + 3 * i);
      by_f.setZero();
      for (int k : foot.supports) {
        const Eigen::Vector3d turn = data_.J.col(k).tail<3>();
        const Eigen::Vector3d move = data_.J.col(k).head<3>() + turn.cross(at);
        by_f.noalias() += data_.Minv.col(k) * move.transpose();
      }
      // The derivatives hold forces in the body's axes; in the world's they turn back
      for (int k : foot.supports) {
        slopes_.col(k).noalias() += by_f * force.cross(Eigen::Vector3d(data_.J.col(k).tail<3>()));
      }
    }
  }

  void end(Given q, Given v, double dt, const Vector* rate, const Vector* a, double* q_next,
           double* v_next) {
    motion_ = dt / 6 * (rate[0] + rate[3] + 2.0 * (rate[1] + rate[2]));
    Eigen::Map<Vector>(q_next, model_.nq) = pin::integrate(model_, q, motion_);
    Eigen::Map<Vector>(v_next, n_) = v + dt / 6 * (a[0] + a[3] + 2.0 * (a[1] + a[2]));
  }

  const Robot& robot_;
  const pin::Model& model_;
  pin::Data data_;
  const int n_, controls_, columns_;
  PINOCCHIO_STD_VECTOR_WITH_EIGEN_ALLOCATOR(pin::Force) wrenches_;
  Vector q_, v_, motion_;
  Matrix slopes_, by_u_, D_, first_, Dr_, Da_, Dr_sum_, Da_sum_;
};

struct Horizon {
  Robot robot;
  std::vector<std::unique_ptr<Worker>> workers;

  // Knots are claimed one by one from a counter
  template <class Work>
  void each(long knots, Work work) {
    std::atomic<long> next{0};
    auto loop = [&](Worker& worker) {
      for (long k; (k = next.fetch_add(1)) < knots;) work(worker, k);
    };
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < workers.size(); ++i) others.emplace_back(loop, std::ref(*workers[i]));
    loop(*workers[0]);
    for (auto& other : others) other.join();
  }
};

}  // namespace

extern "C" {

// feet: the names of the frames, one in a line. Returns null and the reason in `error`.
Horizon* make(const char* urdf, const char* feet, int threads, char* error, int size) try {
  auto horizon = std::make_unique<Horizon>();
  pin::Model& model = horizon->robot.model;
  pin::urdf::buildModelFromXML(urdf, pin::JointModelFreeFlyer(), model);
  std::istringstream names(feet);
  for (std::string name; std::getline(names, name);) {
    if (!model.existFrame(name)) throw std::runtime_error("there is no frame " + name);
    const pin::Frame& frame = model.frames[model.getFrameId(name)];
    Foot foot{frame.parentJoint, frame.placement.translation(), {}};
    for (pin::JointIndex j = foot.joint; j > 0; j = model.parents[j]) {
      for (int k = 0; k < model.joints[j].nv(); ++k) foot.supports.push_back(model.joints[j].idx_v() + k);
    }
    horizon->robot.feet.push_back(foot);
  }
  for (int i = 0; i < threads; ++i) horizon->workers.push_back(std::make_unique<Worker>(horizon->robot));
  return horizon.release();
} catch (const std::exception& caught) {
  std::strncpy(error, caught.what(), size - 1);
  return nullptr;
}

void destroy(Horizon* horizon) { delete horizon; }

// A and B are null where only the next states are wanted
void run(Horizon* horizon, long knots, const double* q, const double* v, const double* u, const double* f,
         double dt, double* q_next, double* v_next, double* A, double* B) {
  const pin::Model& model = horizon->robot.model;
  const int nq = model.nq, nv = model.nv, nu = nv - ROOT, nf = 3 * int(horizon->robot.feet.size());
  horizon->each(knots, [=](Worker& worker, long k) {
    const Given at_q(q + k * nq, nq), at_v(v + k * nv, nv), at_u(u + k * nu, nu), at_f(f + k * nf, nf);
    double *to_q = q_next + k * nq, *to_v = v_next + k * nv;
    if (!A) return worker.step(at_q, at_v, at_u, at_f, dt, to_q, to_v);
    worker.linearise(at_q, at_v, at_u, at_f, dt, to_q, to_v, A + k * 4 * nv * nv, B + k * 2 * nv * (nu + nf));
  });
}
}
