/* What a Cortex-M needs before main: a stack, the floating-point unit, memory as C expects it; and a
 * clock that counts instructions under qemu's -icount shift=0 (25 MHz, so 40 instructions a tick). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
extern void initialise_monitor_handles(void);
int main(void);

#define TIMER ((volatile uint32_t *)0x40000000) /* control, value, reload */

uint32_t instructions(void) { return (0xFFFFFFFFu - TIMER[1]) * 40; }

/* Paints the stack below the caller, and tells how much of it was written since. */
enum { PAINTED = 64 * 1024, PAINT = 0xC5 };
static unsigned char *painted;
void paint_stack(void) {
  painted = (unsigned char *)__builtin_frame_address(0) - PAINTED;
  for (volatile unsigned char *p = painted; p < painted + PAINTED - 128; ++p) *p = PAINT;
}
uint32_t stack_used(void) {
  const volatile unsigned char *p = painted;
  while (p < painted + PAINTED && *p == PAINT) ++p;
  return (uint32_t)(painted + PAINTED - p);
}

void reset(void) {
#if defined(__ARM_FP)
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 */
  __asm volatile("dsb; isb");
#endif
  memcpy(data_begin, data_from, (size_t)((char *)data_end - (char *)data_begin));
  memset(bss_begin, 0, (size_t)((char *)bss_end - (char *)bss_begin));
  TIMER[2] = TIMER[1] = 0xFFFFFFFFu;
  TIMER[0] = 1;
  initialise_monitor_handles();
  exit(main());
}

static const struct {
  uint32_t *stack;
  void (*handlers[15])(void);
} vectors __attribute__((section(".vectors"), used)) = {stack_top, {reset}};
void _init(void) {}
void _fini(void) {}
