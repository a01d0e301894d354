// p0: x
// p1: out, written
// p2: where, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) arg_max_256_256(const f32* p0, f32* p1, i64* p2, const i32 v1, const i32 v2)
{
  __shared__ __align__(16) u8 team_memory[3088];
  const u32 member = threadIdx.x;
  for (u32 at = (u32)blockIdx.x * blockDim.y + threadIdx.y; at < (u32)v1; at += (u32)gridDim.x * blockDim.y) {
    const i32 v0 = (i32)at;
    const f32 v3 = __uint_as_float(0xff800000u);
    const i64 v4 = 9223372036854775807ll;
    f32 v5;
    i64 v6;
    {
      f32 sum5;
      i64 sum6;
      sum5 = v3;
      sum6 = v4;
      for (i32 v7 = (i32)(member); v7 < v2; v7 += 256) {
        const i32 v8 = (i32)((u32)v0 * (u32)v2);
        const i32 v9 = (i32)((u32)v8 + (u32)v7);
        const f32 v10 = p0[v9];
        const i64 v11 = (i64)v7;
        {
          const f32 v12 = sum5;
          const i64 v13 = sum6;
          const f32 v14 = v10;
          const i64 v15 = v11;
          const bool v16 = v12 == v14;
          const bool v17 = v13 < v15;
          const bool v18 = (bool)(v16 & v17);
          const bool v19 = v12 > v14;
          const bool v20 = (bool)(v19 | v18);
          const f32 v21 = v20 ? v12 : v14;
          const i64 v22 = v20 ? v13 : v15;
          sum5 = v21;
          sum6 = v22;
        }
      }
      i64* final6 = (i64*)(team_memory + 0);
      i64* slot6 = (i64*)(team_memory + 16);
      f32* final5 = (f32*)(team_memory + 8);
      f32* slot5 = (f32*)(team_memory + 2064);
      slot5[member] = sum5;
      slot6[member] = sum6;
      __syncthreads();
      if (member < 32u) {
        f32 level5[3];
        i64 level6[3];
        for (u32 leaf5 = 0; leaf5 < 8u; ++leaf5) {
          sum5 = slot5[(__brev(leaf5) >> 29) * 32u + member];
          sum6 = slot6[(__brev(leaf5) >> 29) * 32u + member];
          #pragma unroll
          for (u32 level = 0; level < 3u; ++level) {
            const u32 below = (1u << level) - 1u;
            if ((leaf5 & below) == below) {
              if (leaf5 >> level & 1u) {
                {
                  const f32 v12 = level5[level];
                  const i64 v13 = level6[level];
                  const f32 v14 = sum5;
                  const i64 v15 = sum6;
                  const bool v16 = v12 == v14;
                  const bool v17 = v13 < v15;
                  const bool v18 = (bool)(v16 & v17);
                  const bool v19 = v12 > v14;
                  const bool v20 = (bool)(v19 | v18);
                  const f32 v21 = v20 ? v12 : v14;
                  const i64 v22 = v20 ? v13 : v15;
                  sum5 = v21;
                  sum6 = v22;
                }
              }
              else {
                level5[level] = sum5;
                level6[level] = sum6;
              }
            }
          }
        }
        #pragma unroll
        for (u32 s = 16u; s > 0u; s >>= 1) {
          const f32 other5 = __shfl_down_sync(0xffffffffu, sum5, s, 32);
          const i64 other6 = __shfl_down_sync(0xffffffffu, sum6, s, 32);
          {
            const f32 v12 = sum5;
            const i64 v13 = sum6;
            const f32 v14 = other5;
            const i64 v15 = other6;
            const bool v16 = v12 == v14;
            const bool v17 = v13 < v15;
            const bool v18 = (bool)(v16 & v17);
            const bool v19 = v12 > v14;
            const bool v20 = (bool)(v19 | v18);
            const f32 v21 = v20 ? v12 : v14;
            const i64 v22 = v20 ? v13 : v15;
            sum5 = v21;
            sum6 = v22;
          }
        }
        if (member == 0) { final5[0] = sum5; final6[0] = sum6; }
      }
      __syncthreads();
      v5 = final5[0];
      v6 = final6[0];
    }
    if (member == 0) p1[v0] = v5;
    if (member == 0) p2[v0] = v6;
  }
}
