/* Runs compiled loops on the arrays of a file, on a processor without Python.
 *
 * usage: driver JOBS RESULTS. A file of jobs is words of 64 bits and bytes, see processors_run.py. A
 * loop that writes beside its arrays ends the program with status 3.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { GUARD = 64, MOST = 64, WORDS = 7 };
static const unsigned char UNTOUCHED = 0xA5;

static void fail(int status, const char *told) {
  fprintf(stderr, "driver: %s\n", told);
  exit(status);
}

static int read_words(FILE *file, int64_t *to, int64_t count) {
  return fread(to, sizeof *to, (size_t)count, file) == (size_t)count;
}

/* Memory on a cache line between two guards. */
static char *room(int64_t size) {
  int64_t whole = (size + 2 * GUARD + 63) / 64 * 64;
  char *place = aligned_alloc(64, (size_t)whole);
  if (!place) fail(2, "no memory");
  memset(place, UNTOUCHED, (size_t)whole);
  return place + GUARD;
}

static void check_guards(const char *place, int64_t size) {
  for (int k = 1; k <= GUARD; k++)
    if ((unsigned char)place[-k] != UNTOUCHED || (unsigned char)place[size - 1 + k] != UNTOUCHED)
      fail(3, "a loop wrote beside an array");
}

static char *read_bytes(FILE *file, int64_t size) {
  char *place = room(size);
  if (fread(place, 1, (size_t)size, file) != (size_t)size) fail(2, "a job is cut off");
  return place;
}

/* Recorded calls find their program in words: constants, program, its end, where inputs and where
 * results lie, the bytes of a memory and what it begins with. */
static void fill(FILE *file, int64_t *words) {
  int64_t sizes[5];
  if (!words || !read_words(file, sizes, 5)) fail(2, "a job is cut off");
  char *parts[5];
  for (int k = 0; k < 5; k++) parts[k] = read_bytes(file, sizes[k]);
  int64_t given[WORDS] = {(int64_t)parts[0], (int64_t)parts[1], (int64_t)(parts[1] + sizes[1]),
                          (int64_t)parts[2], (int64_t)parts[3], sizes[4], (int64_t)parts[4]};
  memcpy(words, given, sizeof given);
}

static int run(FILE *jobs, FILE *results) {
  int64_t head[6]; /* kernel, states, inputs, arrays, steps, whether recorded */
  if (!read_words(jobs, head, 6)) return 0;
  if (head[3] > MOST || head[4] > 4 * MOST) fail(2, "too many arrays");
  int64_t sizes[MOST], shifts[MOST], steps[4 * MOST];
  char *rooms[MOST], *starts[MOST];
  if (!read_words(jobs, sizes, head[3]) || !read_words(jobs, shifts, head[3]) ||
      !read_words(jobs, steps, head[4]))
    fail(2, "a job is cut off");
  struct kernel kernel = kernels[head[0]];
  if (head[5]) fill(jobs, kernel.work);
  for (int k = 0; k < head[3]; k++) {
    rooms[k] = k < head[2] ? read_bytes(jobs, sizes[k]) : room(sizes[k]);
    starts[k] = rooms[k] + shifts[k];
  }
  kernel.loop(starts, &head[1], steps, NULL);
  if (kernel.forget) kernel.forget();
  for (int k = 0; k < head[3]; k++) {
    check_guards(rooms[k], sizes[k]);
    if (k >= head[2]) fwrite(rooms[k], 1, (size_t)sizes[k], results);
    free(rooms[k] - GUARD);
  }
  return 1;
}

int main(int count, char **names) {
  if (count != 3) fail(2, "usage: driver JOBS RESULTS");
  FILE *jobs = fopen(names[1], "rb"), *results = fopen(names[2], "wb");
  if (!jobs || !results) fail(2, "a file cannot be opened");
  while (run(jobs, results)) continue;
  return fclose(results) ? 2 : 0;
}
