"""Datapaths in fixed point as circuits for FPGAs, printed as SystemVerilog.

devices, boards                      tables: costs, delays, pins
fuse, binding                        sums computed in DSPs; the multiplier of each product
netlist, netlist_writer, part        signals and registers of a datapath, written as modules
shared, shared_shifter, expressions  units and expressions in these modules
verilog, stream                      a design: its modules, with streams around them
module, statements, text, labels     modules as data, printed at the end; names and comments
cost, unit_costs, piece_costs        what a design needs of a device; `floor`: at least
folder, pipeline_folder, report      the files that a user gets

units/        multipliers, accumulators, sines and reciprocals
memories/     the other kind of datapath: units with operand memories and micro-code
arrays/       several pipelines that follow one schedule
network/      pipelines of several functions, with FIFOs between them
board/        AXI streams and registers around a design; serial/: a UART instead
bitstream/    placed and routed for boards with an ECP5
simulation/   designs in Verilator and Icarus; netlists/: routed netlists there
"""
