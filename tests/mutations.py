"""How the hypothesis tests of the loaders spoil a text."""

from hypothesis import strategies as st


def shuffled(data, pieces):
    """The pieces with some of them moved, doubled and dropped, as one text."""
    pieces = list(pieces)
    for _ in range(data.draw(st.integers(1, 6))):
        i, j = (data.draw(st.integers(0, len(pieces) - 1)) for _ in range(2))
        move = data.draw(st.sampled_from(["swap", "double", "drop"]))
        if move == "swap":
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif move == "double":
            pieces.insert(i, pieces[j])
        elif len(pieces) > 1:
            del pieces[i]
    return "".join(pieces)
