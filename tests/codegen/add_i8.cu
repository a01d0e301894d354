// x + y
// p0: x
// p1: y
// p2: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) add_i8(const i8* p0, const i8* p1, i8* p2, const i32 v1)
{
  const u32 stride = (u32)gridDim.x * blockDim.x;
  u32 at = (u32)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at < (u32)v1 && (u32)v1 - at > 3u * stride; at += 4u * stride) {
    i8 value0[4]; i32 index0[4];
    #pragma unroll
    for (u32 u = 0; u < 4u; ++u) {
      const i32 v0 = (i32)(at + u * stride);
      const i8 v2 = p0[v0];
      const i8 v3 = p1[v0];
      const i8 v4 = (i8)((u32)v2 + (u32)v3);
      value0[u] = v4; index0[u] = v0;
    }
    #pragma unroll
    for (u32 u = 0; u < 4u; ++u) {
      p2[index0[u]] = value0[u];
    }
  }
  for (; at < (u32)v1; at += stride) {
    const i32 v0 = (i32)at;
    const i8 v2 = p0[v0];
    const i8 v3 = p1[v0];
    const i8 v4 = (i8)((u32)v2 + (u32)v3);
    p2[v0] = v4;
  }
}
