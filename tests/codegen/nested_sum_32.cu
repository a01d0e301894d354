// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) nested_sum_32(const f64* p0, f64* p1, const i32 v1, const i32 v2, const i32 v3)
{
  const u32 member = threadIdx.x;
  const u32 team_mask = 0xffffffffu;
  for (u32 at = (u32)blockIdx.x * blockDim.y + threadIdx.y; at < (u32)v1; at += (u32)gridDim.x * blockDim.y) {
    const i32 v0 = (i32)at;
    const f64 v4 = -0.0;
    f64 v5;
    {
      f64 sum5;
      sum5 = v4;
      for (i32 v6 = (i32)(member); v6 < v3; v6 += 32) {
        const f64 v7 = -0.0;
        f64 v8;
        {
          f64 sum8;
          f64 level8[5];
          #pragma unroll 1
          for (u32 leaf8 = 0; leaf8 < 32u; ++leaf8) {
            sum8 = v7;
            for (i32 v9 = (i32)((__brev(leaf8) >> 27)); v9 < v2; v9 += 32) {
              const i32 v10 = (i32)((u32)v0 * (u32)v2);
              const i32 v11 = (i32)((u32)v10 + (u32)v9);
              const f64 v12 = p0[v11];
              const i32 v13 = (i32)((u32)v6 * (u32)v2);
              const i32 v14 = (i32)((u32)v13 + (u32)v9);
              const f64 v15 = p0[v14];
              const f64 v16 = v12 * v15;
              {
                const f64 v17 = sum8;
                const f64 v18 = v16;
                const f64 v19 = v17 + v18;
                sum8 = v19;
              }
            }
            #pragma unroll
            for (u32 level = 0; level < 5u; ++level) {
              const u32 below = (1u << level) - 1u;
              if ((leaf8 & below) == below) {
                if (leaf8 >> level & 1u) {
                  {
                    const f64 v17 = level8[level];
                    const f64 v18 = sum8;
                    const f64 v19 = v17 + v18;
                    sum8 = v19;
                  }
                }
                else {
                  level8[level] = sum8;
                }
              }
            }
          }
          v8 = sum8;
        }
        {
          const f64 v20 = sum5;
          const f64 v21 = v8;
          const f64 v22 = v20 + v21;
          sum5 = v22;
        }
      }
      #pragma unroll
      for (u32 s = 16u; s > 0u; s >>= 1) {
        const f64 other5 = __shfl_down_sync(team_mask, sum5, s, 32);
        {
          const f64 v20 = sum5;
          const f64 v21 = other5;
          const f64 v22 = v20 + v21;
          sum5 = v22;
        }
      }
      v5 = __shfl_sync(team_mask, sum5, 0, 32);
    }
    if (member == 0) p1[v0] = v5;
  }
}
