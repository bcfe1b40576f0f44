"""Operations for which C has no exact operator: fused multiply-adds on processors without the
instruction, rounding to integers that compilers vectorise, quarter turns, and exponents.

The fused multiply-add is done in integers, so that it is exact for subnormal numbers too and costs
little on processors that compute floating-point numbers in software. docs/c.md has its cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class CType(NamedTuple):
    """A floating-point type of C.

    suffix: of its numbers and of the functions of math.h; bits: of a number; fraction: bits after
    the leading one; fma: the macro that a compiler defines if it has the instruction; arm: the bit
    of __ARM_FP for processors that compute with the type.
    """

    name: str
    suffix: str
    bits: int
    fraction: int
    fma: str
    arm: int

    @property
    def integer(self) -> str:
        return f"uint{self.bits}_t"

    def number(self, x: float) -> str:
        """A literal that is read back as this number."""
        with np.errstate(over="ignore"):
            value = np.dtype(f"f{self.bits // 8}").type(x)
        if np.isnan(value):
            return "NAN"
        if np.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        return (repr(float(value)) if self.bits == 64 else str(value)) + self.suffix

    def hexadecimal(self, x: float) -> str:
        """A literal in base 16, which shows every bit."""
        return float(x).hex() + self.suffix if np.isfinite(x) else self.number(x)


CTYPES = {
    np.dtype(np.float64): CType("double", "", 64, 52, "__FP_FAST_FMA", 8),
    np.dtype(np.float32): CType("float", "f", 32, 23, "__FP_FAST_FMAF", 4),
}

ROUND = """\
/* The nearest integer, halves to even. */
static inline {T} fl_round({T} x) {{
  const {T} a = fabs{f}(x), big = {big};
  return a < big ? copysign{f}((a + big) - big, x) : x;
}}
"""
QUARTER = """\
/* The sine of an angle that is k quarter turns beyond one with sine s and cosine c: adding
 * 1.5 2^{fraction} puts the integer k into the last bits of the number. */
static inline {T} fl_quarter({T} k, {T} s, {T} c) {{
  const {T} shifted = k + {shift};
  {U} turns;
  memcpy(&turns, &shifted, sizeof turns);
  const {T} x = turns & 1 ? c : s;
  return turns & 2 ? -x : x;
}}
"""
POWER_OF_TWO = """\
/* 2^k: adding 1.5 2^{fraction} and the bias puts the biased exponent into the last bits. */
static inline {T} fl_power_of_two({T} k) {{
  const {T} shifted = k + {shift_and_bias};
  {U} bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits <<= {fraction};
  {T} result;
  memcpy(&result, &bits, sizeof result);
  return result;
}}
"""
EXPONENT = """\
/* The exponent of a number that is not subnormal, in base 2. */
static inline {T} fl_exponent({T} x) {{
  {U} bits;
  memcpy(&bits, &x, sizeof bits);
  return ({T})(int)(bits >> {fraction} & {exponents}) - {one_bias};
}}
"""
SWITCH = """\
/* a * b + c, rounded once. FEATHERLANE_FMA tells how: 1, the processor has an instruction; 2, in
 * integers, exactly; 0, as a product and a sum, each rounded: other bits, but fast everywhere. */
#ifndef FEATHERLANE_FMA
#if defined({fma}) || defined(__FMA__) || defined(__aarch64__) || defined(_M_ARM64) || \\
    (defined(__ARM_FEATURE_FMA) && defined(__ARM_FP) && (__ARM_FP & {arm})) || \\
    (defined(_MSC_VER) && defined(__AVX2__)) || (defined(__riscv_flen) && __riscv_flen >= {bits})
#define FEATHERLANE_FMA 1
#else
#define FEATHERLANE_FMA 2
#endif
#endif
#if FEATHERLANE_FMA == 1
#define fl_fma(a, b, c) fma{f}(a, b, c)
#elif FEATHERLANE_FMA == 0
#define fl_fma(a, b, c) ((a) * (b) + (c))
#else
{exact}#endif
"""
UNPACK = """\
/* The mantissa of a finite x that is not 0, with its leading one at bit {fraction}, and the
 * exponent of its last bit. */
static {U} fl_unpack({T} x, int *exponent) {{
  {U} bits;
  memcpy(&bits, &x, sizeof bits);
  *exponent = (int)(bits >> {fraction} & {all_ones});
  bits &= {mask};
  if (*exponent) {{
    bits |= {leading};
  }} else {{
    for (*exponent = 1; !(bits >> {fraction}); --*exponent) bits <<= 1;
  }}
  *exponent -= {bias};
  return bits;
}}
"""
FUSED_HEAD = """\
static {T} fl_fma({T} a, {T} b, {T} c) {{
  if (!(fabs{f}(a) < INFINITY && fabs{f}(b) < INFINITY) || a == 0 || b == 0) return a * b + c;
  if (!(fabs{f}(c) < INFINITY)) return c;
  if (c == 0) return a * b;
  int ea, eb, e, es; /* exponents of the last bits; _s: of the smaller of a b and c */
  const {U} ma = fl_unpack(a, &ea), mb = fl_unpack(b, &eb);
"""
PACK = """\
  /* As many bits as the type has, fewer below its normal numbers; the nearest, halves to even */
  const int biased = e + {top};
  const int drop = biased > 0 ? {drop} : {drop} + 1 - biased;
  if (drop > 64) return negative ? -{zero} : {zero};
  if (biased >= {all_ones}) return negative ? -INFINITY : INFINITY;
  {U} bits = drop < 64 ? ({U})(m >> drop) : 0;
  const uint64_t rest = m << (64 - drop), half = (uint64_t)1 << 63;
  if (biased > 0) bits += ({U})(biased - 1) << {fraction};
  bits += rest > half || (rest == half && (bits & 1));
  bits |= ({U})negative << {sign};
  {T} result;
  memcpy(&result, &bits, sizeof result);
  return result;
}}
"""
FUSED_64 = """\
  /* Both as numbers of 128 bits, h and l, with the leading one at bit 126: nothing is lost */
  const uint64_t a1 = ma >> 32, a0 = (uint32_t)ma, b1 = mb >> 32, b0 = (uint32_t)mb;
  const uint64_t middle = (a0 * b0 >> 32) + (uint32_t)(a0 * b1) + (uint32_t)(a1 * b0);
  uint64_t h = a1 * b1 + (a0 * b1 >> 32) + (a1 * b0 >> 32) + (middle >> 32);
  uint64_t l = middle << 32 | (uint32_t)(a0 * b0);
  const int shift = h >> 41 ? 21 : 22;
  h = h << shift | l >> (64 - shift);
  l <<= shift;
  e = ea + eb - shift;
  uint64_t hs = fl_unpack(c, &es) << 10, ls = 0;
  es -= 74;
  int negative = (a < 0) != (b < 0), negative_s = c < 0;
  if (es > e || (es == e && (hs > h || (hs == h && ls > l)))) {
    const uint64_t h1 = h, l1 = l;
    const int e1 = e, negative1 = negative;
    h = hs, l = ls, e = es, negative = negative_s;
    hs = h1, ls = l1, es = e1, negative_s = negative1;
  }
  /* The smaller one shifted to the same exponent; what falls out sets the last bit */
  const int d = e - es;
  if (d >= 128) {
    hs = 0, ls = 1;
  } else if (d > 64) {
    ls = hs >> (d - 64) | ((hs << (128 - d) | ls) != 0);
    hs = 0;
  } else if (d == 64) {
    ls = hs | (ls != 0);
    hs = 0;
  } else if (d > 0) {
    ls = hs << (64 - d) | ls >> d | ((ls << (64 - d)) != 0);
    hs >>= d;
  }
  if (negative == negative_s) {
    l += ls;
    h += hs + (l < ls);
  } else {
    h -= hs + (l < ls);
    l -= ls;
    if (!(h | l)) return 0.0;
  }
  /* The leading one to bit 127; bits below the first 64 only matter as a whole */
  if (!h) h = l, l = 0, e -= 64;
  for (; !(h >> 63); --e) h = h << 1 | l >> 63, l <<= 1;
  const uint64_t m = h | (l != 0);
  e += 64;
"""
FUSED_32 = """\
  /* Both as numbers of 64 bits with the leading one at bit 62: nothing is lost */
  uint64_t m = (uint64_t)ma * mb;
  const int shift = m >> 47 ? 15 : 16;
  m <<= shift;
  e = ea + eb - shift;
  uint64_t s = (uint64_t)fl_unpack(c, &es) << 39;
  es -= 39;
  int negative = (a < 0) != (b < 0), negative_s = c < 0;
  if (es > e || (es == e && s > m)) {
    const uint64_t m1 = m;
    const int e1 = e, negative1 = negative;
    m = s, e = es, negative = negative_s;
    s = m1, es = e1, negative_s = negative1;
  }
  /* The smaller one shifted to the same exponent; what falls out sets the last bit */
  const int d = e - es;
  if (d > 63) {
    s = 1;
  } else if (d > 0) {
    s = s >> d | ((s << (64 - d)) != 0);
  }
  m = negative == negative_s ? m + s : m - s;
  if (!m) return 0.0f;
  for (; !(m >> 63); --e) m <<= 1;
"""


VECTORS = """\
/* A vector of states. GNU C has vectors, of which the compiler makes the processor's; elsewhere
 * there is one state in each. */
#if !defined(__GNUC__)
#define FL_LANES 1
#elif defined(__AVX512F__)
#define FL_LANES {lanes512}
#elif defined(__AVX__)
#define FL_LANES {lanes256}
#else
#define FL_LANES {lanes128}
#endif
#if FL_LANES > 1
#define FL_VECTOR vector_size(FL_LANES * sizeof({T})), aligned(sizeof({T}))
typedef {T} fl_v __attribute__((FL_VECTOR, may_alias));
typedef int{bits}_t fl_i __attribute__((FL_VECTOR));
typedef {U} fl_u __attribute__((FL_VECTOR));
#define fl_all(x) ((fl_v)((x) - (fl_v){{0}}))
#define fl_lane(x, i) (x)[i]
#else
typedef {T} fl_v;
typedef int{bits}_t fl_i;
typedef {U} fl_u;
#define fl_all(x) (x)
#define fl_lane(x, i) (x)
#endif
#define fl_load(at) (*(const fl_v *)(at))
#define fl_store(at, x) (*(fl_v *)(at) = (x))

/* The states that are left over, to and from arrays of one vector; the last state is repeated. */
static inline void fl_gather(
    {T} *to, const {T} *from, size_t count, size_t stride, size_t states) {{
  for (size_t j = 0; j < count; ++j) {{
    for (size_t i = 0; i < FL_LANES; ++i) {{
      to[j * FL_LANES + i] = from[j * stride + (i < states ? i : states - 1)];
    }}
  }}
}}
static inline void fl_scatter(
    {T} *to, const {T} *from, size_t count, size_t stride, size_t states) {{
  for (size_t j = 0; j < count; ++j) {{
    for (size_t i = 0; i < states; ++i) to[j * stride + i] = from[j * FL_LANES + i];
  }}
}}
"""
FMA_V = """\
#if FEATHERLANE_FMA == 1 && defined(__AVX512F__) && FL_LANES > 1
#include <immintrin.h>
#define fl_fma_v(a, b, c) ((fl_v)_mm512_fmadd_{p}(({m512})(a), ({m512})(b), ({m512})(c)))
#elif FEATHERLANE_FMA == 1 && defined(__AVX__) && defined(__FMA__) && FL_LANES > 1
#include <immintrin.h>
#define fl_fma_v(a, b, c) ((fl_v)_mm256_fmadd_{p}(({m256})(a), ({m256})(b), ({m256})(c)))
#elif FEATHERLANE_FMA == 1 && defined(__aarch64__) && FL_LANES > 1
#include <arm_neon.h>
typedef float{bits}x{lanes128}_t fl_neon;
#define fl_fma_v(a, b, c) ((fl_v)vfmaq_f{bits}((fl_neon)(c), (fl_neon)(a), (fl_neon)(b)))
#elif FEATHERLANE_FMA == 0
#define fl_fma_v(a, b, c) ((a) * (b) + (c))
#else
static FL_NOINLINE fl_v fl_fma_v(fl_v a, fl_v b, fl_v c) {{
  for (int i = 0; i < FL_LANES; ++i) {{
    fl_lane(a, i) = fl_fma(fl_lane(a, i), fl_lane(b, i), fl_lane(c, i));
  }}
  return a;
}}
#endif
"""
SQRT_V = """\
static inline fl_v fl_sqrt_v(fl_v a) {{
  for (int i = 0; i < FL_LANES; ++i) fl_lane(a, i) = sqrt{f}(fl_lane(a, i));
  return a;
}}
"""
SELECT_V = """\
#if FL_LANES > 1
#define fl_select_v(c, a, b) ((fl_v)(((c) & (fl_i)(a)) | (~(c) & (fl_i)(b))))
#else
#define fl_select_v(c, a, b) ((c) ? (a) : (b))
#endif
"""
ABS_V = """\
static inline fl_v fl_abs_v(fl_v x) {{
  fl_i bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= INT{bits}_MAX;
  memcpy(&x, &bits, sizeof x);
  return x;
}}
"""
ROUND_V = """\
static inline fl_v fl_round_v(fl_v x) {{
  const fl_v a = fl_abs_v(x), near = (a + {big}) - {big};
  fl_i bits, sign;
  memcpy(&bits, &near, sizeof bits);
  memcpy(&sign, &x, sizeof sign);
  bits |= sign & INT{bits}_MIN;
  fl_v signed_near;
  memcpy(&signed_near, &bits, sizeof bits);
  return fl_select_v(a < {big}, signed_near, x);
}}
"""
QUARTER_V = """\
static inline fl_v fl_quarter_v(fl_v k, fl_v s, fl_v c) {{
  const fl_v shifted = k + {shift};
  fl_i turns, x, y;
  memcpy(&turns, &shifted, sizeof turns);
  memcpy(&x, &s, sizeof x);
  memcpy(&y, &c, sizeof y);
  const fl_i odd = -(turns & 1);
  x = ((y & odd) | (x & ~odd)) ^ (-((turns >> 1) & 1) & INT{bits}_MIN);
  memcpy(&s, &x, sizeof s);
  return s;
}}
"""
POWER_OF_TWO_V = """\
static inline fl_v fl_power_of_two_v(fl_v k) {{
  const fl_v shifted = k + {shift_and_bias};
  fl_u bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits <<= {fraction};
  memcpy(&k, &bits, sizeof k);
  return k;
}}
"""
EXPONENT_V = """\
/* The biased exponent as the last bits of 2^{fraction} + exponent + bias. */
static inline fl_v fl_exponent_v(fl_v x) {{
  const fl_v whole = fl_all({whole});
  fl_u bits, one;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&one, &whole, sizeof one);
  bits = (bits >> {fraction} & {exponents}) | one;
  memcpy(&x, &bits, sizeof x);
  return x - {whole_and_bias};
}}
"""
COPYSIGN_V = """\
static inline fl_v fl_copysign_v(fl_v x, fl_v y) {{
  fl_i bits, sign;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&sign, &y, sizeof sign);
  bits = (bits & INT{bits}_MAX) | (sign & INT{bits}_MIN);
  memcpy(&x, &bits, sizeof x);
  return x;
}}
"""
SCALAR = {
    "fma": SWITCH,
    "round": ROUND,
    "quarter": QUARTER,
    "power_of_two": POWER_OF_TWO,
    "exponent": EXPONENT,
}
VECTOR = {
    "fma": FMA_V,
    "sqrt": SQRT_V,
    "select": SELECT_V,
    "abs": ABS_V,
    "round": ROUND_V,
    "quarter": QUARTER_V,
    "power_of_two": POWER_OF_TWO_V,
    "exponent": EXPONENT_V,
    "copysign": COPYSIGN_V,
}
NEEDS = {"round": ("select", "abs")}  # the definitions that a definition for vectors uses


def helpers(t: CType, operations: set[str], batch: bool) -> str:
    """The definitions that code with these operations uses, for vectors too if `batch`."""
    exponents = t.bits - t.fraction - 1
    middle = (1 << (exponents - 1)) - 1  # the exponent of 1
    fills = {
        "T": t.name,
        "U": t.integer,
        "f": t.suffix,
        "bits": t.bits,
        "fraction": t.fraction,
        "fma": t.fma,
        "arm": t.arm,
        "big": t.number(2.0**t.fraction),
        "shift": t.number(1.5 * 2.0**t.fraction),
        "shift_and_bias": t.number(1.5 * 2.0**t.fraction + middle),
        "whole": t.number(2.0**t.fraction),
        "whole_and_bias": t.number(2.0**t.fraction + middle),
        "exponents": (1 << exponents) - 1,
        "one_bias": t.number(float(middle)),
        "zero": t.number(0.0),
        "sign": t.bits - 1,
        "p": "pd" if t.bits == 64 else "ps",
        "m512": "__m512d" if t.bits == 64 else "__m512",
        "m256": "__m256d" if t.bits == 64 else "__m256",
        **{f"lanes{bits}": bits // t.bits for bits in (512, 256, 128)},
    }
    exact = {
        "all_ones": (1 << exponents) - 1,
        "mask": f"(({t.integer})1 << {t.fraction}) - 1",
        "leading": f"({t.integer})1 << {t.fraction}",
        "bias": middle + t.fraction,
        "top": middle + 63,
        "drop": 63 - t.fraction,
    }
    middle_part = FUSED_64 if t.bits == 64 else FUSED_32
    exact_fma = (UNPACK + "\n" + FUSED_HEAD).format(**fills, **exact) + middle_part
    fills["exact"] = exact_fma + PACK.format(**fills, **exact)
    parts = [text.format(**fills) for op, text in SCALAR.items() if op in operations]
    if batch:
        needed = operations | {x for op in operations for x in NEEDS.get(op, ())}
        parts.append(VECTORS.format(**fills))
        parts += [text.format(**fills) for op, text in VECTOR.items() if op in needed]
    return "\n".join(parts)
