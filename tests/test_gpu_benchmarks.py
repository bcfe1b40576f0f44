"""What benchmarks/ asks of a GPU, run in the emulator and by NVIDIA's assembler."""

import shutil
import subprocess
import sys

import pytest
from documents import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import gpu_questions


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("count", [8, 512])
def test_ptxas_takes_straight_line_code(count, tmp_path):
    path = tmp_path / "f.ptx"
    path.write_text(gpu_questions.straight_line(count))
    call = ["ptxas", "-arch=sm_90", str(path), "-o", str(tmp_path / "f.cubin")]
    assembled = subprocess.run(call, capture_output=True, text=True)
    assert assembled.returncode == 0, assembled.stderr
