"""crocoddyl's contact dynamics, state by state from Python: one line of microseconds.

Run by the interpreter of an environment of its own: crocoddyl needs another Pinocchio than the
loops in C++. Arguments: a pickled model, and a file of joints, placements, rows of each contact, q,
v and tau.
"""

import pickle
import sys
import time
from pathlib import Path

import crocoddyl
import numpy as np
import pinocchio as pin
from peer_models import pinocchio_model


def contact(state, rows, frame):
    if rows == 3:
        here = np.zeros(3), pin.LOCAL, state.nv, np.zeros(2)
        return crocoddyl.ContactModel3D(state, frame, *here)
    here = pin.SE3.Identity(), pin.LOCAL, state.nv, np.zeros(2)
    return crocoddyl.ContactModel6D(state, frame, *here)


def main():
    robot, file = sys.argv[1:]
    given, model = np.load(file), pinocchio_model(pickle.loads(Path(robot).read_bytes()))
    frames = []
    for k, (joint, x) in enumerate(zip(given["joints"], given["placements"], strict=True)):
        place = pin.SE3(x[3:].reshape(3, 3), x[:3])
        frame = pin.Frame(f"contact{k}", int(joint), 0, place, pin.FrameType.OP_FRAME)
        frames.append(model.addFrame(frame))
    state = crocoddyl.StateMultibody(model)
    contacts = crocoddyl.ContactModelMultiple(state, state.nv)
    for k, frame in enumerate(frames):
        contacts.addContact(f"contact{k}", contact(state, int(given["rows"]), frame))
    actuation = crocoddyl.ActuationModelFull(state)
    costs = crocoddyl.CostModelSum(state, state.nv)
    action = crocoddyl.DifferentialActionModelContactFwdDynamics(
        state, actuation, contacts, costs, 0.0, True
    )
    data = action.createData()
    states = [np.concatenate(x) for x in zip(given["q"], given["v"], strict=True)]
    for derivatives in (False, True):
        best = np.inf
        for _ in range(5):
            start = time.process_time()
            for x, u in zip(states, given["tau"], strict=True):
                action.calc(data, x, u)
                if derivatives:
                    action.calcDiff(data, x, u)
            best = min(best, time.process_time() - start)
        print(1e6 * best / len(states), end=" ")


if __name__ == "__main__":
    main()
