"""How many bits does a robot's task need, where the dynamics are computed in fixed point?

Trajectory optimisation of the iiwa14 with formats of 8 to 24 bits before and 2 to 24 bits behind
the point, and formats of each signal: the claim of Plancher et al. (2021, section IV-C). Closed
loops: computed torque, predictive control, a quadruped that stands or trots. What it costs here.
Runs that the CSV has already are left out.
"""

from __future__ import annotations

import csv
from pathlib import Path

import fixed_loop_arm as arm
import fixed_loop_quadruped as quadruped
import fixed_loop_rates as rates
import fixed_loop_trajectories as trajectories
from fixed_loop_formats import Job
from options import parser
from robots import say

from featherlane.errors import CompileError

PARTS = {
    "rates": lambda quick, every: rates.jobs(3 if quick else 9),
    "trajectories": lambda quick, every: trajectories.jobs(8 if quick else 32, every),
    "kinds": lambda quick, every: trajectories.kinds_jobs(8 if quick else 32),
    "arm": lambda quick, every: arm.torque_jobs(*((2, 0.8) if quick else (8, 2.0)), quick),
    "predictive": lambda quick, every: arm.predictive_jobs(
        *((2, 0.6) if quick else (4, 1.2)), quick
    ),
    "quadruped": lambda quick, every: quadruped.jobs(*((1, 0.8) if quick else (3, 2.0)), quick),
}


def main() -> None:
    options = parser(__doc__, quick=False, csv=Path("fixed_point_in_the_loop.csv"))
    options.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    options.add_argument("--every", type=int, default=2, metavar="BITS", help="of the map's axes")
    options.add_argument(
        "--case", default="", metavar="TEXT", help="only cases with it in their name"
    )
    args = options.parse_args()
    known = list(csv.reader(args.csv.open(newline=""))) if args.csv.exists() else []
    done = {tuple(row[:3]) for row in known}
    with args.csv.open("a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        for part in args.parts:
            for job in PARTS[part](args.quick, 4 if args.quick else args.every):
                key = part, job.case, job.format
                if key not in done and args.case in job.case:
                    rows.writerows([*key, name, f"{x:.4g}"] for name, x in _run(job))
                    file.flush()


def _run(job: Job) -> list[tuple[str, float]]:
    say(f"{job.case}: {job.format}")
    try:
        return list(job.run())
    except CompileError as error:
        say(f"    cannot be built: {error}")
        return [("cannot be built", 1.0)]


if __name__ == "__main__":
    main()
