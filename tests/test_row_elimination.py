"""Rows that are eliminated from matrices, and the same for single vectors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from featherlane.algorithms.row_elimination import RowBlock, RowLaw, RowResponse, eliminate

HELD, FREE, STIFF = RowLaw(1.0, 0.0, 1e-14), RowLaw(0.0, 1.0, 0.0), RowLaw(3.0, 1.0, 0.0)
N = 5


def contacts():
    """M^-1, and rows of a contact that sticks, of one that has the same, and of one that slides."""
    rng = np.random.default_rng(0)
    half, rows, changes = rng.normal(size=(N, N)), rng.normal(size=(6, N)), rng.normal(size=(6, 2))
    again, laws = rng.normal(size=(3, 3)), [*[HELD] * 6, HELD, STIFF, FREE]
    rows, changes = (np.vstack([x[:3], again @ x[:3], x[3:]]) for x in (rows, changes))
    return half @ half.T + np.eye(N), rows, changes, laws, [0.0, 0.0, 0.7]


def scalars(matrix):
    """NumPy's, which divide by 0."""
    return [[*row] for row in matrix]


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_vectors_are_answered_as_matrices_are():
    P, A, y, laws, leans = contacts()
    answer = scalars(np.hstack([P, np.zeros((N, 2))]))
    F = A.copy()
    for k, lean in enumerate(leans):
        rows = slice(3 * k, 3 * k + 3)
        F[3 * k] -= lean * A[3 * k + 2]
        block = RowBlock(scalars(A[rows]), scalars(y[rows]), laws[rows], lean)
        answer = eliminate(block, answer)
    answer = np.array(answer)
    held = [0, 1, 2, 6]
    assert_allclose((A @ answer[:, :N])[held], 0, atol=1e-12)
    assert_allclose((A @ answer[:, N:] + y)[held], 0, atol=1e-12)
    response = RowResponse.of(scalars(A @ P @ F.T), laws)
    assert response.gains[3:6] == [0, 0, 0]  # of rows that are redundant
    matrix = np.array([response.solve(e.tolist()) for e in np.eye(9)]).T
    assert_allclose(P - P @ F.T @ matrix @ A @ P, answer[:, :N], atol=1e-12)
    assert_allclose(-P @ F.T @ matrix @ y, answer[:, N:], atol=1e-12)
    transposed = [response.solve(e.tolist(), transposed=True) for e in np.eye(9)]
    assert_allclose(transposed, matrix, atol=1e-12)
