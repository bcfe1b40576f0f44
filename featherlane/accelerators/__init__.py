"""Functions of robots as circuits for FPGAs: choices, designs, boards and reports.

entry                  `fl.accelerator`, with its search (`design`, `front`) and `build`
designs, choices       `accelerator` and `multifunction`: their arguments, checked
computation, formats   the datapath of a function, in formats; `ranges`: of several functions
designers              the design of a datapath at an interval, or the reason why there is none
accelerator            what a user holds; `pipelines`: of one function, `networks`: of several
tasks                  tasks of several functions, as words and back
search, front          all designs of some choices, and the best of them
board, bitstreams      a design behind AXI streams, and routed on a board with an ECP5
host, pins             the driver of a bitstream, and its netlist checked at the pins

organise/              a robot's structure as arrays of limbs and columns, stations and links
report/                drawings, pages and traces
"""
