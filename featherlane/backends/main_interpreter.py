"""Refuses subinterpreters before anything else is loaded.

NumPy, ctypes' callbacks and machine code keep one state for the whole process, which belongs to its
main interpreter. In an interpreter with a separate lock NumPy does not load either.
"""

try:
    import _interpreters as interpreters  # type: ignore[import-not-found]
except ImportError:  # before Python 3.13; other implementations of Python have neither module
    try:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:
        interpreters = None

if interpreters is not None and interpreters.get_current() != interpreters.get_main():
    raise ImportError(
        "featherlane does not run in subinterpreters, since NumPy and ctypes keep one state for "
        "the whole process: import it in the main interpreter, or start a process"
    )
