"""Scripts in Tcl for AMD Vivado: a build without a project, and a core for block designs.

**Not run**: Vivado was not at hand. The scripts follow its documented commands (UG835), and their
syntax and order are checked by an interpreter of Tcl in which these commands only say that they
were called.
"""

from __future__ import annotations

from featherlane.backends.fpga.board.wrapper import WrappedCore

BUILD = """\
# Builds {name} in AMD Vivado without a project: synthesis, place and route, reports. NOT RUN by its
# author: no Vivado was at hand. Its commands are those of UG835.
#
#   vivado -mode batch -source build.tcl
#   vivado -mode batch -source build.tcl -tclargs xczu7ev-ffvc1156-2-e built
#
# The design is built out of context: its ports are wires of a block design, not pins. For a
# bitstream instantiate it there (package.tcl), with a DMA on both streams.

set part {part}
set folder built
if {{[llength $argv] > 0}} {{ set part [lindex $argv 0] }}
if {{[llength $argv] > 1}} {{ set folder [lindex $argv 1] }}
file mkdir $folder

set here [file dirname [file normalize [info script]]]
set sources {{}}
foreach source [lsort [glob -directory $here *.sv]] {{
  if {{![string match *_bench.sv $source]}} {{ lappend sources $source }}
}}
read_verilog -sv $sources
read_xdc -mode out_of_context [file join $here {name}.xdc]

synth_design -top {name} -part $part -mode out_of_context -flatten_hierarchy rebuilt
write_checkpoint -force [file join $folder synthesised.dcp]
report_utilization -hierarchical -file [file join $folder utilisation_synthesised.txt]

opt_design
place_design
phys_opt_design
route_design
write_checkpoint -force [file join $folder routed.dcp]

report_utilization -hierarchical -file [file join $folder utilisation.txt]
report_timing_summary -max_paths 10 -file [file join $folder timing.txt]
report_power -file [file join $folder power.txt]
report_drc -file [file join $folder rules.txt]
report_methodology -file [file join $folder methodology.txt]

set slack [get_property SLACK [get_timing_paths -max_paths 1 -nworst 1 -setup]]
puts "slack $slack ns at {clock:g} ns: [expr {{$slack >= 0 ? {{the clock is met}} : {{too slow}}}}]"
"""
PACKAGE = """\
# Packages {name} as a core for block designs of AMD Vivado. NOT RUN by its author: no Vivado was at
# hand. Its commands are those of UG1118.
#
#   vivado -mode batch -source package.tcl
#
# Add the folder `core` to the repositories of a project; its core has the interfaces s_axis,
# m_axis and s_axi. A DMA (axi_dma, without scatter and gather, {width} bits on both streams) and
# the processor's AXI ports connect to these.

set part {part}
set here [file dirname [file normalize [info script]]]
set core [file join $here core]
file mkdir $core

create_project -in_memory -part $part
set sources {{}}
foreach source [lsort [glob -directory $here *.sv]] {{
  if {{![string match *_bench.sv $source]}} {{ lappend sources $source }}
}}
add_files $sources
set_property top {name} [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir $core -vendor featherlane -library dynamics -taxonomy /UserIP \\
  -import_files -set_current true
set ip [ipx::current_core]
set_property name {name} $ip
set_property version 1.0 $ip
set_property display_name {{{name}}} $ip
set_property description {{{told}}} $ip
set_property core_revision {revision} $ip
foreach bus {{s_axis m_axis s_axi}} {{
  ipx::associate_bus_interfaces -busif $bus -clock aclk $ip
}}
ipx::create_xgui_files $ip
ipx::update_checksums $ip
ipx::save_core $ip
puts "the core is in $core"
"""
CONSTRAINTS = """\
# The clock of {name}: {clock:g} ns, out of context
create_clock -name aclk -period {clock:.3f} [get_ports aclk]
"""


def scripts(board: WrappedCore, part: str) -> dict[str, str]:
    """The text of each script. part: the device as Vivado names it."""
    known = {
        "name": board.name,
        "part": part,
        "clock": board.core.clock,
        "width": board.width,
        "told": f"{board.core.name}: {board.rate.per_second / 1e6:.3g} million tasks a second",
        "revision": board.hash & 0x7FFFFFFF,
    }
    return {
        "build.tcl": BUILD.format(**known),
        "package.tcl": PACKAGE.format(**known),
        f"{board.name}.xdc": CONSTRAINTS.format(**known),
    }
