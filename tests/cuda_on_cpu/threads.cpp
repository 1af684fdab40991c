// The threads of a thread block, on one CPU core.
//
// Blocks run one after the other. In a kernel that never waits, so do their threads. Otherwise each
// thread has a stack of its own and runs until it waits; when all that have to come have come, they
// go on. The order is always the same, so two threads that race for a place are not found out;
// threads that wait in different places for ever are.
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>

struct Index3 {
  unsigned x, y, z;
};
enum Waiting { for_nothing, for_warp, for_block, finished };
struct Thread {
  Waiting waiting;
  bool has_stack;
  jmp_buf where;
};

static const unsigned most_threads = 1024, warp = 32;
static const size_t stack_bytes = 1 << 16;
static Thread threads[most_threads];
static uint64_t handed_out[most_threads];
static unsigned current;
static jmp_buf scheduler;
static void (*kernel)(void**);
static void** arguments;

extern "C" {
Index3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) char shared_memory[1 << 16];

unsigned thread_number() { return current; }
}

// Back to the scheduler, which comes back here by a jump.
static __attribute__((noinline)) void wait(Waiting what) {
  threads[current].waiting = what;
  if (!_setjmp(threads[current].where)) _longjmp(scheduler, 1);
}

extern "C" {
void wait_for_block() { wait(for_block); }
void wait_for_warp() { wait(for_warp); }

uint64_t from_lane(uint64_t mine, unsigned thread) {
  handed_out[current] = mine;
  wait(for_warp);
  unsigned count = blockDim.x * blockDim.y * blockDim.z;
  uint64_t theirs = thread < count ? handed_out[thread] : mine;
  wait(for_warp);  // before the next value is handed out
  return theirs;
}
}

// A stack is kept for the next block, whose thread of this number goes on behind `wait`.
static void live() {
  for (;;) {
    kernel(arguments);
    wait(finished);
  }
}

static __attribute__((noinline)) void go_on(unsigned number) {
  static char* stacks = static_cast<char*>(std::malloc(most_threads * stack_bytes));
  static ucontext_t fresh;
  if (_setjmp(scheduler)) return;
  if (threads[number].has_stack) _longjmp(threads[number].where, 1);
  threads[number].has_stack = true;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = stacks + number * stack_bytes;
  fresh.uc_stack.ss_size = stack_bytes;
  makecontext(&fresh, live, 0);
  setcontext(&fresh);
}

// Whether all of threads[first, stop) that are left wait for the same; then they need not any more.
static bool release(Waiting what, unsigned first, unsigned stop) {
  bool any = false;
  for (unsigned t = first; t < stop; t++) {
    if (threads[t].waiting == what) any = true;
    else if (threads[t].waiting != finished) return false;
  }
  for (unsigned t = first; any && t < stop; t++)
    if (threads[t].waiting == what) threads[t].waiting = for_nothing;
  return any;
}

static void place(unsigned number) {
  current = number;
  threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y,
               number / (blockDim.x * blockDim.y)};
}

static bool run_block(unsigned count) {
  for (unsigned t = 0; t < count; t++) threads[t].waiting = for_nothing;
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned t = 0; t < count; t++)
      if (threads[t].waiting == for_nothing) {
        place(t);
        go_on(t);
      }
    for (unsigned t = 0; t < count; t += warp)
      moved |= release(for_warp, t, t + warp < count ? t + warp : count);
    moved |= release(for_block, 0, count);
  }
  for (unsigned t = 0; t < count; t++)
    if (threads[t].waiting != finished) return false;
  return true;
}

// sizes: gridDim, then blockDim. Returns whether all threads came to the end.
extern "C" bool run(void (*f)(void**), void** args, const unsigned* sizes, bool waits) {
  gridDim = {sizes[0], sizes[1], sizes[2]};
  blockDim = {sizes[3], sizes[4], sizes[5]};
  kernel = f;
  arguments = args;
  unsigned count = blockDim.x * blockDim.y * blockDim.z;
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        if (waits) {
          if (!run_block(count)) {
            for (Thread& thread : threads) thread.has_stack = false;  // they are lost in the kernel
            return false;
          }
          continue;
        }
        for (unsigned t = 0; t < count; t++) {
          place(t);
          f(args);
        }
      }
  return true;
}
