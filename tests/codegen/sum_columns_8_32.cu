// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) sum_columns_8_32(const f32* p0, f32* p1, const i32 v1, const i32 v2)
{
  __shared__ __align__(16) u8 team_memory[1152];
  const u32 member = threadIdx.y;
  for (u32 base = (u32)blockIdx.x * 32u; base < (u32)v1; base += (u32)gridDim.x * 32u) {
    const u32 at = base + threadIdx.x;
    const bool active = at < (u32)v1;
    const i32 v0 = (i32)(active ? at : (u32)v1 - 1u);
    const f32 v3 = -0.0f;
    f32 v4;
    {
      f32 sum4;
      f32 level4[2];
      for (u32 leaf4 = 0; leaf4 < 4u; ++leaf4) {
        sum4 = v3;
        for (i32 v5 = (i32)((__brev(leaf4) >> 30) * 8u + member); v5 < v2; v5 += 32) {
          const i32 v6 = (i32)((u32)v5 * (u32)v1);
          const i32 v7 = (i32)((u32)v6 + (u32)v0);
          const f32 v8 = p0[v7];
          {
            const f32 v9 = sum4;
            const f32 v10 = v8;
            const f32 v11 = v9 + v10;
            sum4 = v11;
          }
        }
        #pragma unroll
        for (u32 level = 0; level < 2u; ++level) {
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
      f32* final4 = (f32*)(team_memory + 0);
      f32* slot4 = (f32*)(team_memory + 128);
      slot4[member * 32u + threadIdx.x] = sum4;
      __syncthreads();
      if (member == 0) {
        f32 level4[3];
        for (u32 leaf4 = 0; leaf4 < 8u; ++leaf4) {
          sum4 = slot4[(__brev(leaf4) >> 29) * 32u + threadIdx.x];
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
        final4[threadIdx.x] = sum4;
      }
      __syncthreads();
      v4 = final4[threadIdx.x];
    }
    if (member == 0 && active) p1[v0] = v4;
  }
}
