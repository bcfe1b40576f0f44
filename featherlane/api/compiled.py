"""The base of the user's model: arguments to variants, and variants to functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from featherlane.api.card import card
from featherlane.api.parameter_values import check_not_negative, with_six_entries
from featherlane.errors import one_of
from featherlane.functions.arguments import Shapes
from featherlane.functions.array_like import Params, Threads, WrenchFrame
from featherlane.functions.function import Function
from featherlane.functions.kernels import RobotKernels
from featherlane.functions.method_path import serve_method
from featherlane.functions.shape_hints import shape_hint
from featherlane.functions.table import Variant
from featherlane.functions.variants import (
    check_variant,
    in_order,
    input_names,
    input_shapes,
    options_in_texts,
    output_shapes,
    results_type,
    variant_of,
    with_defaults,
)
from featherlane.functions.wrenches import WRENCH_FRAMES, stacked
from featherlane.robot import model
from featherlane.robot.tree import Tree
from featherlane.robot.tree_of import tree_of

Arrays = tuple[Any, ...]


class Compiled(model.Robot):
    """The functions of `functions.table.CALLED`, by name."""

    def __str__(self) -> str:
        return card(self)

    @property
    def tree(self) -> Tree:
        """The robot in the form that the algorithms read, for functions of yours that call them."""
        return tree_of(self)

    def _function(self, variant: Variant, width: int | None = None) -> Function:
        return self._function_of(with_defaults(variant), width)

    def _function_of(self, variant: Variant, width: int | None = None) -> Function:
        """Returns the function of a variant with its defaults, which `variant_of` fills in, too."""
        cache = self.__dict__.setdefault("_functions", {})
        key = variant, width
        try:
            function = cache.get(key)
        except TypeError:  # a list, say, in place of a name
            check_variant(self, variant)
            raise
        if function is None:
            function = cache.setdefault(key, self._new_function(*key))
            if width is None and (texts := options_in_texts(variant)) is not None:
                serve_method(self, variant.name, function, texts, variant.at)
        return function

    def _new_function(self, variant: Variant, width: int | None) -> Function:
        check_variant(self, variant)
        inputs = input_shapes(self, variant)
        return Function(
            variant.name,
            inputs,
            output_shapes(self, variant),
            RobotKernels(self, variant, width),
            results_type(variant),
            partial(shape_hint, self, variant.actuation),
            (Compiled._function, (self, variant, width)),
            self._quaternion_of(inputs),
        )

    def _quaternion_of(self, inputs: Shapes) -> tuple[int, int] | None:
        """The number of the input q, and the entry where its first quaternion begins."""
        if inputs.get("q") != (self.nq,) or not self.first_of_quaternions:
            return None
        return [*inputs].index("q"), self.first_of_quaternions[0]

    @cached_property
    def _asked(self) -> dict[tuple[Any, ...], tuple[Function, tuple[str, ...]]]:
        """The functions that methods have asked for, with their parameters in order, by name,
        wrenches, method, names of parameters and options.
        """
        return {}

    def _bound(
        self,
        name: str,
        arrays: Arrays,
        params: Params = None,
        f_ext: Any = None,
        f_ext_frame: WrenchFrame = "body",
        method: str = "auto",
        **options: Any,
    ) -> tuple[Function, Arrays]:
        """Returns the function that a method's arguments ask for, and all arrays for its call.

        options: `frame`, `integrator` and others, as in Variant.
        """
        names = () if params is None else tuple(params) if type(params) is dict else None
        usual = names is not None and (f_ext is None or type(f_ext) is np.ndarray)
        asked = name, f_ext is None, f_ext_frame, method, names, *options.values()
        try:
            function, ordered = self._asked[asked] if usual else (None, ())
        except (KeyError, TypeError):  # the first time, or something that is refused below
            function = None
        if function is None and isinstance(options.get("frame"), list):
            options["frame"] = tuple(options["frame"])  # which can be looked up
            return self._bound(name, arrays, params, f_ext, f_ext_frame, method, **options)
        if function is None:
            if f_ext_frame not in WRENCH_FRAMES:
                wanted = one_of(f_ext_frame, WRENCH_FRAMES)
                raise ValueError(f"f_ext_frame is {f_ext_frame!r}: {wanted}")
            if not isinstance(method, str):
                raise TypeError(f"method is {method!r}: wanted a name, as in method='auto'")
            ordered = in_order(params)
            at, f_ext = _at_frames(name, arrays, params, ordered, f_ext, options)
            options |= {"wrenches": None if f_ext is None else f_ext_frame, "at": at}
            variant = variant_of(self, name, parameters=ordered, method=method, **options)
            function = self._function_of(variant)
            if usual:
                self._asked[asked] = function, ordered  # next time without half of a call's time
        wrenches = () if f_ext is None else (f_ext,)
        if not params:
            return function, (*arrays, *wrenches)
        check_not_negative(self, name, params)
        values = [with_six_entries(x, params[x]) for x in ordered]
        return function, (*arrays, *wrenches, *values)

    def _call(
        self,
        name: str,
        arrays: Arrays,
        params: Params = None,
        out: Any = None,
        threads: Threads = None,
        *wrenches: Any,
        **options: Any,
    ) -> Any:
        """Calls that function. wrenches: f_ext and f_ext_frame, where the function takes them."""
        function, inputs = self._bound(name, arrays, params, *wrenches, **options)
        return function(*inputs, out=out, threads=threads)


def _at_frames(
    name: str, arrays: Arrays, params: Params, ordered: Sequence[str], f_ext: Any, options: Any
) -> tuple[tuple[str, ...], Any]:
    """Returns the frames at which wrenches act and the wrenches as an array, for {frame: wrench};
    no frames for an array, which has a wrench for each body.
    """
    if not isinstance(f_ext, Mapping):
        return (), f_ext
    if not f_ext:
        return (), None
    leading = input_names(Variant(name, method=None, **options))[: len(arrays)]
    labels, values = (*leading, *ordered), [params[x] for x in ordered] if params else []
    return stacked(f_ext, dict(zip(labels, (*arrays, *values), strict=True)))
