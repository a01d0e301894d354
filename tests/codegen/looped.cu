// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) looped(const f64* p0, f64* p1, const f64 v1, const i64 v2, const f64 v3, const i32 v4)
{
  const u32 stride = (u32)gridDim.x * blockDim.x;
  u32 at = (u32)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at < (u32)v4; at += stride) {
    const i32 v0 = (i32)at;
    const f64 v5 = p0[v0];
    const f64 v6 = 0x1.999999999999ap-4;
    f64 v8 = v5;
    f64 v9 = v6;
    for (i64 v7 = 0; v7 < v2; ++v7) {
      const bool v10 = v8 <= v3;
      if (!v10) break;
      const f64 v11 = v9 * v1;
      const f64 v12 = v8 + v11;
      const f64 kept9 = v9;
      v8 = kept9;
      v9 = v12;
    }
    const f64 v13 = v8;
    const f64 v14 = v9;
    p1[v0] = v13;
  }
}
