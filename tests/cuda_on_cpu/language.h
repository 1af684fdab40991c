// CUDA C++ as a C++ compiler reads it: words that only a GPU needs mean nothing here, and the
// functions that CUDA has built in are those of the C library. What threads of a block do
// together, waiting and handing values to each other, is in threads.cpp.
#pragma once
#include <cassert>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__
// Blocks run one after the other, so one copy serves them all.
#define __shared__ static
#define __align__(bytes) alignas(bytes)

struct Index3 {
  unsigned x, y, z;
};
extern "C" {
extern Index3 threadIdx, blockIdx, blockDim, gridDim;
extern char shared_memory[];  // extern __shared__ T name[]; compiler.py puts it there
void wait_for_block();
void wait_for_warp();
uint64_t from_lane(uint64_t mine, unsigned thread);  // what that thread of the warp hands out
unsigned thread_number();
}
static const int warpSize = 32;

inline void __syncthreads() { wait_for_block(); }
inline void __syncwarp(unsigned = 0) { wait_for_warp(); }
inline void __threadfence() {}

template <class To, class From>
To same_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  std::memcpy(static_cast<void*>(&to), &value, sizeof to);
  return to;
}

// A lane that is asked for and is not there hands back one's own value, as on a GPU.
template <class T>
T hand_over(T value, unsigned lane) {
  unsigned me = thread_number(), first = me / 32 * 32;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = from_lane(bits, lane < 32 ? first + lane : me);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}
template <class T>
T __shfl_sync(unsigned, T value, unsigned lane, int = 32) {
  return hand_over(value, lane % 32);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned by, int = 32) {
  unsigned lane = thread_number() % 32;
  return hand_over(value, lane < by ? lane : lane - by);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned by, int = 32) {
  return hand_over(value, thread_number() % 32 + by);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask, int = 32) {
  return hand_over(value, (thread_number() % 32) ^ mask);
}

// Threads take turns, and only at a barrier: plain reads and writes are whole.
template <class T, class F>
T exchanged(T* place, F next) {
  T before = *place;
  *place = next(before);
  return before;
}
#define ATOMICS(T)                                                                             \
  inline T atomicAdd(T* p, T v) { return exchanged(p, [=](T old) -> T { return old + v; }); }  \
  inline T atomicSub(T* p, T v) { return exchanged(p, [=](T old) -> T { return old - v; }); }  \
  inline T atomicExch(T* p, T v) { return exchanged(p, [=](T) -> T { return v; }); }
ATOMICS(int)
ATOMICS(unsigned)
ATOMICS(unsigned long long)
ATOMICS(float)
ATOMICS(double)
#define ATOMIC_BOUNDS(T)                                                                        \
  inline T atomicMax(T* p, T v) { return exchanged(p, [=](T o) -> T { return o < v ? v : o; }); } \
  inline T atomicMin(T* p, T v) { return exchanged(p, [=](T o) -> T { return v < o ? v : o; }); }
ATOMIC_BOUNDS(int)
ATOMIC_BOUNDS(unsigned)
ATOMIC_BOUNDS(unsigned long long)
template <class T>
T atomicCAS(T* place, T expected, T value) {
  return exchanged(place, [=](T old) { return old == expected ? value : old; });
}

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
template <class T>
T min(T a, T b) { return b < a ? b : a; }
template <class T>
T max(T a, T b) { return a < b ? b : a; }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(bits) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline unsigned __umulhi(unsigned a, unsigned b) { return uint64_t{a} * b >> 32; }
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }

// What a GPU's compiler does not know should not pass here.
#undef INFINITY
#undef NAN
#undef M_SQRT1_2
#undef M_SQRT2
#undef M_2_SQRTPI

// A launch brings the addresses of a kernel's arguments; here they become arguments again.
template <class... A, size_t... I>
void call_with(void (*kernel)(A...), void** at, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>>*>(at[I])...);
}
template <class... A>
void call_with(void (*kernel)(A...), void** at) {
  call_with(kernel, at, std::index_sequence_for<A...>());
}
