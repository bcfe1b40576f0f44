"""The command line of the attacks: one subcommand for each part."""

import argparse
import sys
from importlib import import_module

# A part is a module here with add_arguments(parser) and run(arguments), which returns how many
# findings there are. Its docstring is its help.
PARTS = ("files", "calls", "kills", "threads")


def parser():
    result = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    commands = result.add_subparsers(required=True, metavar="PART")
    for name in PARTS:
        part = import_module(f".{name}", __package__)
        summary = part.__doc__.splitlines()[0]
        command = commands.add_parser(name, help=summary, description=part.__doc__)
        part.add_arguments(command)
        command.set_defaults(run=part.run)
    return result


if __name__ == "__main__":
    arguments = parser().parse_args()
    sys.exit(1 if arguments.run(arguments) else 0)
