// Pinocchio's functions as straight-line code for one robot: recorded with CppAD, written as C by CppADCodeGen.
//
// The derivatives are Pinocchio's analytic ones with a scalar type that records, not those of CppAD, so that a free
// root has them too. The code reads q, v, u and writes a, b, c; matrices are stored column by column, symmetric ones
// full.
#include <pinocchio/codegen/cppadcg.hpp>

#include <pinocchio/multibody.hpp>
#include <pinocchio/parsers/urdf.hpp>
#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/cholesky.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace pin = pinocchio;
using Coded = CppAD::cg::CG<double>;
using Recorded = CppAD::AD<Coded>;
using Model = pin::ModelTpl<Recorded>;
using Data = pin::DataTpl<Recorded>;
using Vector = Eigen::Matrix<Recorded, Eigen::Dynamic, 1>;
using Matrix = Eigen::Matrix<Recorded, Eigen::Dynamic, Eigen::Dynamic>;

// What right angles of a URDF, given in radians, leave in the place of zeros: it would stay in the code.
constexpr double kRounding = 1e-15;

static Model read(const std::string& robot, bool free) {
  pin::Model model;
  if (free) pin::urdf::buildModel(robot, pin::JointModelFreeFlyer(), model);
  else pin::urdf::buildModel(robot, model);
  for (auto& placement : model.jointPlacements)
    placement.rotation() = (placement.rotation().array().abs() < kRounding).select(0.0, placement.rotation());
  return model.cast<Recorded>();
}

template <class Square>
static Matrix full(const Square& upper) {
  Matrix both = upper;
  both.template triangularView<Eigen::StrictlyLower>() = both.transpose();
  return both;
}

static std::vector<Matrix> blocks(const std::string& name, const Model& model, Data& data, const Vector& q,
                                  const Vector& v, const Vector& u) {
  if (name == "inverse_dynamics") return {pin::rnea(model, data, q, v, u)};
  if (name == "forward_dynamics") return {pin::aba(model, data, q, v, u, pin::Convention::LOCAL)};
  if (name == "mass_matrix") {
    data.M.setZero();
    pin::crba(model, data, q, pin::Convention::LOCAL);
    return {full(data.M)};
  }
  if (name == "mass_matrix_inverse") {
    pin::computeMinverse(model, data, q);
    return {full(data.Minv)};
  }
  if (name == "inverse_dynamics_derivatives") {
    pin::computeRNEADerivatives(model, data, q, v, u);
    return {data.dtau_dq, data.dtau_dv};
  }
  if (name == "forward_dynamics_derivatives") {
    pin::computeABADerivatives(model, data, q, v, u);
    return {data.ddq_dq, data.ddq_dv, full(data.Minv)};
  }
  throw std::invalid_argument("there is no " + name);
}

// Entries of an array by their place in several ones: {"q", 7}, {"v", 7}, ...
using Arrays = std::vector<std::pair<std::string, size_t>>;

static std::string entry(const Arrays& arrays, size_t k) {
  for (const auto& [name, size] : arrays) {
    if (k < size) return name + "[" + std::to_string(k) + "]";
    k -= size;
  }
  throw std::out_of_range("more entries than arrays have");
}

// Temporaries are variables instead of entries of an array, which a compiler would have to take apart first.
struct Names : CppAD::cg::LangCDefaultVariableNameGenerator<double> {
  const Arrays inputs, outputs;

  Names(Arrays inputs, Arrays outputs)
      : LangCDefaultVariableNameGenerator("y", "x", "t"), inputs(std::move(inputs)), outputs(std::move(outputs)) {
    this->_temporary[0] = CppAD::cg::FuncArgument("t", false);
  }
  std::string generateDependent(size_t k) override { return entry(outputs, k); }
  std::string generateIndependent(const CppAD::cg::OperationNode<double>&, size_t id) override {
    return entry(inputs, id - 1);
  }
};

// The body of a function that computes `name`, written to a file.
static void generate(const std::string& robot, bool free, const std::string& name, const std::string& real,
                     const std::string& file) {
  const Model model = read(robot, free);
  Data data(model);
  const size_t nq = model.nq, nv = model.nv;
  Vector x = Vector::Zero(nq + 2 * nv);
  x.head(nq) = pin::neutral(model);
  CppAD::Independent(x);
  const Vector q = x.head(nq), v = x.segment(nq, nv), u = x.tail(nv);
  const std::vector<Matrix> results = blocks(name, model, data, q, v, u);
  Arrays outputs;
  Vector y(0);
  for (const Matrix& block : results) {
    outputs.emplace_back(std::string(1, "abc"[outputs.size()]), block.size());
    y.conservativeResize(y.size() + block.size());
    y.tail(block.size()) = Eigen::Map<const Vector>(block.data(), block.size());
  }
  CppAD::ADFun<Coded> function(x, y);
  function.optimize("no_compare_op");

  CppAD::cg::CodeHandler<double> handler;
  std::vector<Coded> inputs(x.size());
  handler.makeVariables(inputs);
  std::vector<Coded> computed = function.Forward(0, inputs);
  CppAD::cg::LanguageC<double> language(real);
  language.setParameterPrecision(17);
  Names names({{"q", nq}, {"v", nv}, {"u", nv}}, outputs);
  std::ofstream stream(file);
  handler.generateCode(stream, language, computed, names);
  if (!stream.flush()) throw std::runtime_error("cannot write " + file);
}

// 0, or 1 with the reason in `error`.
extern "C" int write_code(const char* robot, int free, const char* name, const char* real, const char* file,
                          char* error, int size) try {
  generate(robot, free, name, real, file);
  return 0;
} catch (const std::exception& e) {
  std::snprintf(error, size, "%s", e.what());
  return 1;
}
