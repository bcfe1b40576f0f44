"""The devices that kernels are translated for, as a table.

None of them has run a kernel yet: what is known is what LLVM's code generators and validators say.
"""

from __future__ import annotations

from featherlane.backends.cuda.kernel_stage import Launch
from featherlane.backends.cuda.ptx import WARP
from featherlane.backends.llvm.targets import Processor
from featherlane.backends.vendors.ir import Dialect

# Subnormal numbers are kept, and nothing is contracted
IEEE = '"denormal-fp-math"="ieee,ieee" "denormal-fp-math-f32"="ieee,ieee" nounwind'


# What LLVM's code generator would have the driver prepare, and no kernel uses
UNUSED = " ".join(
    f'"amdgpu-no-{x}"'
    for x in (
        "completion-action",
        "default-queue",
        "dispatch-id",
        "dispatch-ptr",
        "heap-ptr",
        "hostcall-ptr",
        "implicitarg-ptr",
        "lds-kernel-id",
        "multigrid-sync-arg",
        "queue-ptr",
        "workgroup-id-z",
        "workitem-id-y",
        "workitem-id-z",
    )
)


def _amd_attributes(launch: Launch) -> str:
    size = f'"amdgpu-flat-work-group-size"="{launch.threads},{launch.threads}"'
    return f'{size} "uniform-work-group-size"="true" {IEEE} {UNUSED}'


def _fenced(scope: str, barrier: str) -> tuple[str, ...]:
    """A barrier with fences: all threads see behind it what others wrote before."""
    return (
        f'fence syncscope("{scope}") release',
        f"call void @{barrier}()",
        f'fence syncscope("{scope}") acquire',
    )


# A wavefront has 64 threads, or 32, which run in step: two of our warps, or one. Its barrier is an
# order for LLVM alone, so that a warp may have left while the other one of its wavefront has not.
AMD = Dialect(
    convention="amdgpu_kernel",
    memory="@memory",
    parameters=(),
    begin=(
        "%tid.x = call i32 @llvm.amdgcn.workitem.id.x()",
        "%ctaid.x = call i32 @llvm.amdgcn.workgroup.id.x()",
    ),
    barriers={
        "bar.warp.sync": _fenced("wavefront", "llvm.amdgcn.wave.barrier"),
        "bar.sync": _fenced("workgroup", "llvm.amdgcn.s.barrier"),
    },
    stack=5,
    declarations=(
        "@memory = external addrspace(3) global [0 x i8], align 16",
        "declare i32 @llvm.amdgcn.workitem.id.x()",
        "declare i32 @llvm.amdgcn.workgroup.id.x()",
        "declare void @llvm.amdgcn.wave.barrier()",
        "declare void @llvm.amdgcn.s.barrier()",
    ),
    attributes=_amd_attributes,
)


def _control_barrier(scope: int) -> tuple[str, ...]:
    """A barrier of threads; what they wrote to shared memory before is seen behind it."""
    order = 0x8 | 0x100  # acquire and release, of the memory of the block
    call = "call spir_func void @_Z22__spirv_ControlBarrierjjj"
    return (f"{call}(i32 {scope}, i32 {scope}, i32 {order})",)


# Threads of a warp are a subgroup of 32, which the kernel asks for; OpenCL passes shared memory as
# the last argument of a kernel
SPIRV = Dialect(
    convention="spir_kernel",
    memory="%memory",
    parameters=("ptr addrspace(3) align 16 %memory",),
    begin=tuple(
        line
        for name, call in (
            ("tid.x", "_Z12get_local_idj(i32 0)"),
            ("ctaid.x", "_Z12get_group_idj(i32 0)"),
        )
        for line in (
            f"%{name}.wide = call spir_func i64 @{call}",
            f"%{name} = trunc i64 %{name}.wide to i32",
        )
    ),
    barriers={"bar.warp.sync": _control_barrier(3), "bar.sync": _control_barrier(2)},
    stack=0,
    declarations=(
        "declare spir_func i64 @_Z12get_local_idj(i32)",
        "declare spir_func i64 @_Z12get_group_idj(i32)",
        "declare spir_func void @_Z22__spirv_ControlBarrierjjj(i32, i32, i32)",
        f"!0 = !{{i32 {WARP}}}",
    ),
    attributes=lambda launch: f"{IEEE} !intel_reqd_sub_group_size !0",
)

AMDHSA = "amdgcn-amd-amdhsa"
DEVICES = {
    "gfx90a": (Processor("gfx90a", AMDHSA, "gfx90a", "", 32), AMD),
    "gfx942": (Processor("gfx942", AMDHSA, "gfx942", "", 32), AMD),
    "spirv64": (Processor("spirv64", "spirv64v1.2-unknown-unknown", "", "", 32), SPIRV),
}
