"""The field's names for functions and options of this package: of Pinocchio, MuJoCo, Drake, GRiD,
Brax, JaxSim, frax and textbooks. Messages about unknown names look here first.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

# A call of ours, and names of others for it; letters and digits alone count, in either case
CALLS: dict[str, str] = {
    "inverse_dynamics(q, v, a)": (
        "rnea id newton_euler recursive_newton_euler mj_inverse mj_rne calc_inverse_dynamics "
        "compute_inverse_dynamics qfrc_inverse inv_dyn"
    ),
    "forward_dynamics(q, v, tau)": (
        "aba fd articulated_body_algorithm mj_forward mj_fwd_acceleration "
        "forward_dynamics_aba forward_dynamics_crb calc_forward_dynamics fwd_dyn qacc ddq "
        "qdd"
    ),
    "mass_matrix(q)": (
        "crba composite_rigid_body m mass_mat inertia_matrix joint_space_inertia "
        "generalized_inertia mj_full_m mj_crb qm calc_mass_matrix "
        "calc_mass_matrix_via_inverse_dynamics compute_mass_matrix free_floating_mass_matrix"
    ),
    "mass_matrix_inverse(q)": (
        "minv inverse_mass_matrix compute_minverse direct_minv mj_solve_m "
        "inertia_inverse free_floating_mass_matrix_inverse"
    ),
    "inverse_dynamics_derivatives(q, v, a)": (
        "did rnea_derivatives rnea_grad d_rnea compute_rnea_derivatives "
        "inverse_dynamics_gradient mjd_inverse_fd"
    ),
    "forward_dynamics_derivatives(q, v, tau)": (
        "dfd difd aba_derivatives aba_grad d_aba fd_grad compute_aba_derivatives "
        "compute_forward_dynamics_derivatives forward_dynamics_gradient"
    ),
    "bias_force(q, v)": (
        "nle nonlinear_effects bias qfrc_bias bias_forces h free_floating_bias_forces"
    ),
    "gravity_torque(q)": (
        "gravity_term gravity_compensation generalized_gravity gravity_vector "
        "compute_generalized_gravity calc_gravity_generalized_forces compute_static_torque g"
    ),
    "coriolis_matrix(q, v)": "coriolis compute_coriolis_matrix coriolis_term",
    "frame_placement(q, frame)": (
        "fk forward_kinematics fkine frame_pose link_pose pose omf update_frame_placement "
        "update_frame_placements frames_forward_kinematics transform xpos end_effector_pose "
        "calc_relative_transform"
    ),
    "jacobian(q, frame)": (
        "j frame_jacobian geometric_jacobian get_frame_jacobian jacob0 mj_jac "
        "compute_frame_jacobian compute_joint_jacobian compute_joint_jacobians mj_jac_site "
        "mj_jac_body calc_jacobian_spatial_velocity"
    ),
    "jacobian_time_derivative(q, v, frame)": (
        "jdot jacobian_dot d_jacobian frame_jacobian_derivative "
        "compute_joint_jacobians_time_variation get_frame_jacobian_time_variation mj_jac_dot"
    ),
    "frame_velocity(q, v, frame)": "get_frame_velocity link_velocity mj_object_velocity twist",
    "frame_acceleration(q, v, a, frame)": (
        "get_frame_acceleration mj_object_acceleration get_frame_classical_acceleration "
        "link_acceleration"
    ),
    "imu(q, v, a, frame)": "accelerometer gyro gyroscope proper_acceleration inertial_measurement",
    "center_of_mass(q)": (
        "com com_position subtree_com center_of_mass_position centre_of_mass "
        "calc_center_of_mass_position_in_world"
    ),
    "center_of_mass_jacobian(q)": "jcom com_jacobian jacobian_center_of_mass mj_jac_subtree_com",
    "centroidal_momentum(q, v)": "compute_centroidal_momentum centroidal",
    "centroidal_momentum_matrix(q)": "ccrba cmm ag compute_centroidal_map",
    "centroidal_momentum_rate(q, v, a)": (
        "compute_centroidal_momentum_time_variation centroidal_dynamics"
    ),
    "centroidal_momentum_matrix_time_derivative(q, v)": "dccrba dag",
    "gravity_torque_derivatives(q)": "compute_generalized_gravity_derivatives gravity_gradient",
    "frame_velocity_derivatives(q, v, frame)": "get_frame_velocity_derivatives",
    "frame_acceleration_derivatives(q, v, a, frame)": "get_frame_acceleration_derivatives",
    "body_regressor(q, v, a, frame)": "frame_body_regressor joint_body_regressor",
    "task_space_inertia(q, frame)": "operational_space_inertia lambda task_inertia",
    "manipulability(q, frame)": "manipulability_index yoshikawa",
    "kinetic_energy(q, v)": "compute_kinetic_energy calc_kinetic_energy",
    "potential_energy(q)": "compute_potential_energy calc_potential_energy",
    "inverse_dynamics_regressor(q, v, a)": "regressor compute_joint_torque_regressor y",
    "inverse_dynamics_second_derivatives(q, v, a)": (
        "so_rnea idsva_so rnea_hessian compute_rnea_second_order_derivatives"
    ),
    "forward_dynamics_hessian(q, v, tau, weights)": "fdsva_so aba_hessian",
    "integrate(q, v)": "mj_integrate_pos",
    "difference(q0, q1)": "mj_differentiate_pos subtract",
    "integrate_derivatives(q, v)": "d_integrate",
    "difference_derivatives(q0, q1)": "d_difference",
    "random_configuration()": "randomq random_state sample_configuration",
    "neutral()": "neutralq q0 qpos0 zero_configuration home",
    "step(q, v, tau, dt)": "mj_step simulate_step integrator",
    "linearize_step(q, v, tau, dt)": "mjd_transition_fd linearize dynamics_jacobians transition_fd",
    "rollout(q0, v0, tau, dt)": "simulate unroll",
    "inverse_kinematics({frame: target})": "ik ikine solve_ik",
    "reduced({joint: position})": "build_reduced_model lock_joints",
}
OF_MODULE: dict[str, str] = {
    "load(source)": (
        "load load_urdf load_mjcf from_urdf from_mjcf urdf mjcf parse_urdf robot robot_model "
        "build_model_from_urdf build_model_from_mjcf mj_model from_xml_path load_model "
        "load_robot parser"
    ),
    "compile(function, inputs)": "jit njit codegen",
    "gradient(function, inputs)": "grad value_and_grad",
    "jacobian(function, inputs)": "jacfwd jacrev jac",
    "hessian(function, inputs)": "hess",
    "trace(function, inputs)": "make_jaxpr",
    "ilqr(model, q0, v0, tau, dt, cost)": "ddp fddp box_ddp",
    "solve(A, b)": "lin_solve solve_linear cho_solve ldlt",
    "exp3(w)": "rodrigues exp_so3 so3_exp from_rotvec rotation_from_vector",
    "log3(R)": "log_so3 so3_log as_rotvec rotation_vector",
    "exp6(v)": "exp_se3 se3_exp",
    "log6(T)": "log_se3 se3_log",
    "exp3_jacobian(w)": "jexp3 right_jacobian so3_jacobian",
    "exp3_jacobian_inverse(w)": "jlog3 right_jacobian_inverse",
    "exp6_jacobian(v)": "jexp6 se3_jacobian",
    "exp6_jacobian_inverse(v)": "jlog6",
    "placement_of(R, p)": "se3 homogeneous rigid_transform",
    "inverse(T)": "se3_inverse invert_transform trans_inv",
    "adjoint(T)": "action to_action_matrix se3_adjoint adjoint_matrix",
    "sphere_sphere_distance(a, b)": "signed_distance compute_distance collision_distance sdf",
    "placement_error(T, target)": "pose_error se3_error",
    "rotation_error(R, target)": "orientation_error so3_error",
    "matrix_from_rpy(rpy)": "rpy_to_matrix euler_to_matrix rpy2r",
    "rpy_from_matrix(R)": "matrix_to_rpy matrix_to_euler tr2rpy",
    "matrix_from_quaternion(quaternion)": "quaternion_to_matrix quat2mat mju_quat2mat",
    "quaternion_from_matrix(R)": "matrix_to_quaternion mat2quat mju_mat2quat",
    "quaternion_product(a, b)": "quat_mul mju_mul_quat quaternion_multiply",
    "slerp(quaternion0, quaternion1, s)": "quaternion_interpolation quat_slerp",
}
ATTRIBUTES: dict[str, str] = {
    "nq": "num_positions n_q",
    "nv": "n dof dofs_count ndof num_dofs ndofs num_velocities n_v nvel",
    "nbodies": "nbody n_bodies num_bodies njoints njnt num_joints n_links num_links",
    "joint_names": "names joints_names dof_names get_joint_id exist_joint_name",
    "body_names": "link_names",
    "parent": "parents body_parentid jnt_parent",
    "joint": "joint_placements",
    "actuators": "actuator_names actuator_gear",
    "geometry": "geometry_model collision_model geoms ngeom collisions",
    "configurations": "keyframes keyframe key group_states reference_configurations",
    "with_payload": "payload add_payload set_payload",
    "frame_names": "frames_names get_frame_id exist_frame",
    "position_limits": (
        "lower_position_limit upper_position_limit q_min q_max jnt_range joint_limits qlim"
    ),
    "velocity_limits": "velocity_limit v_max qd_max",
    "effort_limits": (
        "effort_limit torque_limit torque_limits tau_max actuator_forcerange force_limits"
    ),
    "mass": "total_mass compute_total_mass get_total_mass body_subtreemass",
    "armature": "rotor_inertia dof_armature",
    "damping": "dof_damping viscous_friction",
    "friction": "dof_frictionloss frictionloss",
}
# Values of arguments: ours, and others' words for them
VALUES: dict[str, str] = {
    "free": (
        "freeflyer floating floating_base float 6dof six_dof joint_model_free_flyer "
        "quaternion quaternion_floating freejoint"
    ),
    "fixed": "weld welded static anchored fix fixed_base",
    "revolute": "hinge rotary rotational rx ry rz",
    "prismatic": "slide slider linear sliding",
    "spherical": "ball ball_rpy",
    "helical": "screw",
    "cylindrical": "cylinder",
    "body": "local link body_frame",
    "world": "local_world_aligned lwa mixed",
    "spatial": "inertial world_spatial",
    "rk4": "runge_kutta rungekutta4 rk_4",
    "midpoint": "rk2 runge_kutta_2",
    "semi_implicit": "symplectic symplectic_euler semi_implicit_euler",
    "euler": "explicit_euler forward_euler explicit",
    "implicit_damping": "implicit implicitfast implicit_euler backward_euler",
    "exact": "newton full",
    "gauss_newton": "ilqr gn gaussnewton",
    "inertial": "phi pi theta inertial_parameters dynamic_parameters",
    "armature": "rotor_inertia reflected_inertia motor_inertia",
    "damping": "viscous viscous_friction",
    "friction": "frictionloss coulomb dry_friction",
    "com": "center_of_mass centre_of_mass ipos lever",
    "cuda": "gpu nvidia cuda_device",
    "mass": "body_mass masses m",
    "inertia": "body_inertia inertias i",
}
ARGUMENTS: dict[str, str] = {
    "q": "qpos position positions configuration theta joint_positions",
    "v": "qd dq qdot qvel velocity velocities joint_velocities nu",
    "a": "qdd ddq qddot qacc acceleration vdot joint_accelerations",
    "tau": "torque torques u ctrl control controls qfrc forces joint_forces joint_torques",
    "f_ext": "fext external_forces forces_ext xfrc_applied link_forces wrenches",
    "f_ext_frame": "fext_frame wrench_frame",
    "frame": "link body frame_id link_name frame_name",
    "reference": "reference_frame rf representation",
    "dt": "timestep h step_size",
    "integrator": "integration solver scheme method",
    "steps": "n_steps horizon num_steps",
    "threads": "num_threads nthread nthreads n_jobs workers",
    "params": "parameters",
    "root": "root_joint base",
}
# Of what there is none, for a reason
NOT_NEEDED: dict[str, str] = {
    "frameworks are imported by name: from featherlane.interop.torch import wrap": "torch",
    "frameworks are imported by name: from featherlane.interop.jax import wrap": "jax",
    "frameworks are imported by name: from featherlane.interop.casadi import to_casadi": "casadi",
    "frameworks are imported by name: from featherlane.interop.dask import wrap": "dask",
    "frameworks are imported by name: from featherlane.interop.torch import wrap, or "
    "featherlane.interop.jax": "interop wrap wrap_model",
    "a model holds no state, q, v and tau are arguments: model.forward_dynamics(q, v, tau)": (
        "q v tau qpos qvel ctrl act time state"
    ),
    "a model has no dt and no options, they are arguments: model.step(q, v, tau, dt)": (
        "dt opt timestep options"
    ),
    "a model has no device and no dtype: it computes where its arrays are, in theirs": (
        "to cuda cpu gpu double half device dtype"
    ),
    "functions of arrays need no data object: model.inverse_dynamics(q, v, a)": (
        "data create_data make_data mj_data d"
    ),
    "methods take leading dimensions: model.inverse_dynamics(q, v, a), q (1000, nq)": (
        "vmap batch batched batch_eval map"
    ),
    "a model is complete when it is loaded, and holds no state": (
        "finalize context create_default_context update_kinematics set_positions "
        "set_velocities reset"
    ),
}
# Keywords of other libraries' functions, and what to write here; {}: the function's name
KEYWORDS = {
    "device": (
        "arrays on a GPU are computed there; NumPy's go there with "
        "model.function({!r}, device='cuda')"
    ),
    "backend": "model.function({!r}, backend='fixed') computes in fixed point; GPUs are a device=",
    "floating_base": "a free base is root='free'",
    "dtype": "float32 arrays give float32 results, all others float64",
    "width": "it is an option of model.function({!r}, width=...)",
    "mapping": "it is an option of model.function({!r}, device='cuda', mapping=...)",
    "data": "functions of arrays need no data object",
}
EXACT = {"WORLD": "spatial"}  # Pinocchio's world has its point at the world's origin


def folded(word: str) -> str:
    """The letters and digits of a name in lower case: RK4, rk_4 and rk4 are one."""
    return "".join(c for c in word.casefold() if c.isalnum())


@cache
def _index() -> dict[str, list[str]]:
    """Calls, attributes and values of ours by the field's folded names."""
    index: dict[str, list[str]] = {}
    for table in (CALLS, OF_MODULE, ATTRIBUTES, VALUES, ARGUMENTS, NOT_NEEDED):
        for ours, names in table.items():
            for name in (name_of(ours), *names.split()):
                index.setdefault(folded(name), []).append(ours)
    return index


def name_of(call: str) -> str:
    return call.partition("(")[0]


def meanings(word: str) -> list[str]:
    """Calls, attributes and values of this package that the field knows by this name."""
    last = word.rsplit(".", 1)[-1]  # of ReferenceFrame.LOCAL
    return [EXACT[last]] if last in EXACT else _index().get(folded(last), [])


def meaning(word: str, known: Iterable[str]) -> str | None:
    """The known name that the field calls by this word."""
    known = set(known)
    return next((name for name in map(name_of, meanings(word)) if name in known), None)
