// Numbers as words of a circuit: what a host does before and after it.
#include <cmath>
#include <cstdint>

struct Run { int to, from, count; };  // of entries and words that lie side by side

namespace {

template <class Number>
void decoded(long states, const int32_t* words, int each, const Run* runs, int count, const Number* steps,
             int entries, Number* to) {
  for (long k = 0; k < states; ++k, words += each, to += entries) {
    for (int r = 0; r < count; ++r) {
      const int32_t* from = words + runs[r].from;
      Number* at = to + runs[r].to;
      const Number* step = steps + runs[r].to;
      for (int i = 0; i < runs[r].count; ++i) at[i] = Number(from[i]) * step[i];
    }
  }
}

template <class Number>
void encoded(long states, const Number* from, int entries, const int* read, int count, const double* inverse,
             const double* least, const double* most, int32_t* words) {
  for (long k = 0; k < states; ++k, from += entries, words += count) {
    for (int i = 0; i < count; ++i) {
      const double x = std::nearbyint(double(from[read[i]]) * inverse[i]);
      words[i] = int32_t(x < least[i] ? least[i] : x > most[i] ? most[i] : x);
    }
  }
}

}  // namespace

extern "C" {

void decode_float64(long n, const int32_t* w, int each, const Run* r, int c, const double* s, int e, double* to) {
  decoded(n, w, each, r, c, s, e, to);
}

void decode_float32(long n, const int32_t* w, int each, const Run* r, int c, const float* s, int e, float* to) {
  decoded(n, w, each, r, c, s, e, to);
}

void encode_float64(long n, const double* from, int e, const int* read, int c, const double* inverse,
                    const double* least, const double* most, int32_t* words) {
  encoded(n, from, e, read, c, inverse, least, most, words);
}

void encode_float32(long n, const float* from, int e, const int* read, int c, const double* inverse,
                    const double* least, const double* most, int32_t* words) {
  encoded(n, from, e, read, c, inverse, least, most, words);
}
}
