// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) twice_bf16(const u16* p0, u16* p1, const i32 v1)
{
  const u32 stride = (u32)gridDim.x * blockDim.x;
  u32 at = (u32)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at < (u32)v1 && (u32)v1 - at > 3u * stride; at += 4u * stride) {
    u16 value0[4]; i32 index0[4];
    #pragma unroll
    for (u32 u = 0; u < 4u; ++u) {
      const i32 v0 = (i32)(at + u * stride);
      const u16 v2 = p0[v0];
      const u32 v3 = (u32)v2;
      const u32 v4 = 16u;
      const u32 v5 = (u32)((u32)v3 << (u32)v4);
      const f32 v6 = __uint_as_float(v5);
      const f32 v7 = 2.0f;
      const f32 v8 = v6 * v7;
      const u32 v9 = __float_as_uint(v8);
      const u32 v10 = 16u;
      const u32 v11 = (u32)(v9 >> (u32)v10);
      const u32 v12 = 1u;
      const u32 v13 = v11 & v12;
      const u32 v14 = 32767u;
      const u32 v15 = v9 + v14;
      const u32 v16 = v15 + v13;
      const u32 v17 = 16u;
      const u32 v18 = (u32)(v16 >> (u32)v17);
      const u16 v19 = (u16)v18;
      value0[u] = v19; index0[u] = v0;
    }
    #pragma unroll
    for (u32 u = 0; u < 4u; ++u) {
      p1[index0[u]] = value0[u];
    }
  }
  for (; at < (u32)v1; at += stride) {
    const i32 v0 = (i32)at;
    const u16 v2 = p0[v0];
    const u32 v3 = (u32)v2;
    const u32 v4 = 16u;
    const u32 v5 = (u32)((u32)v3 << (u32)v4);
    const f32 v6 = __uint_as_float(v5);
    const f32 v7 = 2.0f;
    const f32 v8 = v6 * v7;
    const u32 v9 = __float_as_uint(v8);
    const u32 v10 = 16u;
    const u32 v11 = (u32)(v9 >> (u32)v10);
    const u32 v12 = 1u;
    const u32 v13 = v11 & v12;
    const u32 v14 = 32767u;
    const u32 v15 = v9 + v14;
    const u32 v16 = v15 + v13;
    const u32 v17 = 16u;
    const u32 v18 = (u32)(v16 >> (u32)v17);
    const u16 v19 = (u16)v18;
    p1[v0] = v19;
  }
}
