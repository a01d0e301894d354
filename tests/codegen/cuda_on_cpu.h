// What a printed kernel needs of CUDA, on threads of the CPU: one thread a thread, one block after another.
#include <pthread.h>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __noinline__ __attribute__((noinline))
#define __forceinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

struct Dim { unsigned x, y, z; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
static thread_local Dim threadIdx, blockIdx;
static Dim blockDim, gridDim;
static pthread_barrier_t block_barrier;
static uint64_t exchanged[1024];
static std::map<unsigned, pthread_barrier_t> groups;
static std::mutex groups_lock;

static unsigned lane_id() { return threadIdx.y * blockDim.x + threadIdx.x; }
static void __syncthreads() { pthread_barrier_wait(&block_barrier); }

static void meet(unsigned mask) {
  const unsigned first = (lane_id() & ~31u) + __builtin_ctz(mask);
  pthread_barrier_t* barrier;
  {
    std::lock_guard<std::mutex> hold(groups_lock);
    if (!groups.count(first)) pthread_barrier_init(&groups[first], nullptr, __builtin_popcount(mask));
    barrier = &groups[first];
  }
  pthread_barrier_wait(barrier);
}
static void __syncwarp(unsigned mask) { meet(mask); }

template <class T> static T shuffled(unsigned mask, T value, unsigned source) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  exchanged[lane_id()] = bits;
  meet(mask);
  bits = exchanged[source];
  meet(mask);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, unsigned delta, unsigned width) {
  const unsigned id = lane_id(), place = id % width;
  return shuffled(mask, value, place + delta < width ? id + delta : id);
}
template <class T> static T __shfl_sync(unsigned mask, T value, unsigned lane, unsigned width) {
  const unsigned id = lane_id();
  return shuffled(mask, value, id - id % width + lane);
}

template <class To, class From> static To as(From from) { To to; std::memcpy(&to, &from, sizeof(To)); return to; }
static float __uint_as_float(unsigned x) { return as<float>(x); }
static float __int_as_float(int x) { return as<float>(x); }
static unsigned __float_as_uint(float x) { return as<unsigned>(x); }
static int __float_as_int(float x) { return as<int>(x); }
static double __longlong_as_double(long long x) { return as<double>(x); }
static long long __double_as_longlong(double x) { return as<long long>(x); }
static float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static float __fsqrt_rn(float a) { return std::sqrt(a); }
static double __dsqrt_rn(double a) { return std::sqrt(a); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
static unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}

template <class F> static void run_blocks(Dim grid, unsigned threads, F kernel) {
  blockDim = {threads, 1, 1};
  gridDim = grid;
  pthread_barrier_init(&block_barrier, nullptr, threads);
  for (unsigned block = 0; block < grid.x * grid.y * grid.z; ++block) {
    std::vector<std::thread> running;
    for (unsigned t = 0; t < threads; ++t)
      running.emplace_back([=] {
        threadIdx = {t, 0, 0};
        blockIdx = {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
        kernel();
      });
    for (auto& thread : running) thread.join();
  }
  groups.clear();
}

template <class F> static void run_blocks_2d(Dim grid, unsigned bx, unsigned by, F kernel) {
  blockDim = {bx, by, 1};
  gridDim = grid;
  pthread_barrier_init(&block_barrier, nullptr, bx * by);
  for (unsigned block = 0; block < grid.x * grid.y; ++block) {
    std::vector<std::thread> running;
    for (unsigned t = 0; t < bx * by; ++t)
      running.emplace_back([=] {
        threadIdx = {t % bx, t / bx, 0};
        blockIdx = {block % grid.x, block / grid.x, 0};
        kernel();
      });
    for (auto& thread : running) thread.join();
  }
}

template <class F> static void run_grid(unsigned blocks, unsigned bx, unsigned by, F kernel) {
  blockDim = {bx, by, 1};
  gridDim = {blocks, 1, 1};
  pthread_barrier_init(&block_barrier, nullptr, bx * by);
  for (unsigned block = 0; block < blocks; ++block) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < bx * by; ++t)
      threads.emplace_back([=] { threadIdx = {t % bx, t / bx, 0}; blockIdx = {block, 0, 0}; kernel(); });
    for (auto& thread : threads) thread.join();
  }
  groups.clear();
}
