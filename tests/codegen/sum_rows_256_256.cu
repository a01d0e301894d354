// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) sum_rows_256_256(const f32* p0, f32* p1, const i32 v1, const i32 v2)
{
  __shared__ __align__(16) u8 team_memory[1040];
  const u32 member = threadIdx.x;
  for (u32 at = (u32)blockIdx.x * blockDim.y + threadIdx.y; at < (u32)v1; at += (u32)gridDim.x * blockDim.y) {
    const i32 v0 = (i32)at;
    const f32 v3 = -0.0f;
    f32 v4;
    {
      f32 sum4;
      sum4 = v3;
      for (i32 v5 = (i32)(member); v5 < v2; v5 += 256) {
        const i32 v6 = (i32)((u32)v0 * (u32)v2);
        const i32 v7 = (i32)((u32)v6 + (u32)v5);
        const f32 v8 = p0[v7];
        {
          const f32 v9 = sum4;
          const f32 v10 = v8;
          const f32 v11 = v9 + v10;
          sum4 = v11;
        }
      }
      f32* final4 = (f32*)(team_memory + 0);
      f32* slot4 = (f32*)(team_memory + 16);
      slot4[member] = sum4;
      __syncthreads();
      if (member < 32u) {
        f32 level4[3];
        for (u32 leaf4 = 0; leaf4 < 8u; ++leaf4) {
          sum4 = slot4[(__brev(leaf4) >> 29) * 32u + member];
          #pragma unroll
          for (u32 level = 0; level < 3u; ++level) {
            const u32 below = (1u << level) - 1u;
            if ((leaf4 & below) == below) {
              if (leaf4 >> level & 1u) {
                {
                  const f32 v9 = level4[level];
                  const f32 v10 = sum4;
                  const f32 v11 = v9 + v10;
                  sum4 = v11;
                }
              }
              else {
                level4[level] = sum4;
              }
            }
          }
        }
        #pragma unroll
        for (u32 s = 16u; s > 0u; s >>= 1) {
          const f32 other4 = __shfl_down_sync(0xffffffffu, sum4, s, 32);
          {
            const f32 v9 = sum4;
            const f32 v10 = other4;
            const f32 v11 = v9 + v10;
            sum4 = v11;
          }
        }
        if (member == 0) { final4[0] = sum4; }
      }
      __syncthreads();
      v4 = final4[0];
    }
    if (member == 0) p1[v0] = v4;
  }
}
