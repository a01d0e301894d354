// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) softmax_256_256(const f32* p0, f32* p1, const i32 v1, const i32 v2)
{
  __shared__ __align__(16) u8 team_memory[1040];
  const u32 member = threadIdx.x;
  for (u32 at = (u32)blockIdx.x * blockDim.y + threadIdx.y; at < (u32)v1; at += (u32)gridDim.x * blockDim.y) {
    const i32 v0 = (i32)at;
    const f32 v3 = __uint_as_float(0xff800000u);
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
          const bool v11 = v9 > v10;
          const f32 v12 = v11 ? v9 : v10;
          sum4 = v12;
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
                  const bool v11 = v9 > v10;
                  const f32 v12 = v11 ? v9 : v10;
                  sum4 = v12;
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
            const bool v11 = v9 > v10;
            const f32 v12 = v11 ? v9 : v10;
            sum4 = v12;
          }
        }
        if (member == 0) { final4[0] = sum4; }
      }
      __syncthreads();
      v4 = final4[0];
    }
    const f32 v13 = -0.0f;
    f32 v14;
    {
      f32 sum14;
      sum14 = v13;
      for (i32 v15 = (i32)(member); v15 < v2; v15 += 256) {
        const i32 v16 = (i32)((u32)v0 * (u32)v2);
        const i32 v17 = (i32)((u32)v16 + (u32)v15);
        const f32 v18 = p0[v17];
        const f32 v19 = v18 - v4;
        const f32 v20 = expf(v19);
        {
          const f32 v21 = sum14;
          const f32 v22 = v20;
          const f32 v23 = v21 + v22;
          sum14 = v23;
        }
      }
      f32* final14 = (f32*)(team_memory + 0);
      f32* slot14 = (f32*)(team_memory + 16);
      slot14[member] = sum14;
      __syncthreads();
      if (member < 32u) {
        f32 level14[3];
        for (u32 leaf14 = 0; leaf14 < 8u; ++leaf14) {
          sum14 = slot14[(__brev(leaf14) >> 29) * 32u + member];
          #pragma unroll
          for (u32 level = 0; level < 3u; ++level) {
            const u32 below = (1u << level) - 1u;
            if ((leaf14 & below) == below) {
              if (leaf14 >> level & 1u) {
                {
                  const f32 v21 = level14[level];
                  const f32 v22 = sum14;
                  const f32 v23 = v21 + v22;
                  sum14 = v23;
                }
              }
              else {
                level14[level] = sum14;
              }
            }
          }
        }
        #pragma unroll
        for (u32 s = 16u; s > 0u; s >>= 1) {
          const f32 other14 = __shfl_down_sync(0xffffffffu, sum14, s, 32);
          {
            const f32 v21 = sum14;
            const f32 v22 = other14;
            const f32 v23 = v21 + v22;
            sum14 = v23;
          }
        }
        if (member == 0) { final14[0] = sum14; }
      }
      __syncthreads();
      v14 = final14[0];
    }
    {
      u32 k24 = member;
      for (; k24 < (u32)v2 && (u32)v2 - k24 > 3u * 256u; k24 += 4u * 256u) {
        f32 value0[4]; i32 index0[4];
        #pragma unroll
        for (u32 u = 0; u < 4u; ++u) {
          const i32 v24 = (i32)(k24 + u * 256u);
          const i32 v25 = (i32)((u32)v0 * (u32)v2);
          const i32 v26 = (i32)((u32)v25 + (u32)v24);
          const i32 v27 = (i32)((u32)v0 * (u32)v2);
          const i32 v28 = (i32)((u32)v27 + (u32)v24);
          const f32 v29 = p0[v28];
          const f32 v30 = v29 - v4;
          const f32 v31 = expf(v30);
          const f32 v32 = v31 / v14;
          value0[u] = v32; index0[u] = v26;
        }
        #pragma unroll
        for (u32 u = 0; u < 4u; ++u) {
          p1[index0[u]] = value0[u];
        }
      }
      for (; k24 < (u32)v2; k24 += 256u) {
        const i32 v24 = (i32)k24;
        const i32 v25 = (i32)((u32)v0 * (u32)v2);
        const i32 v26 = (i32)((u32)v25 + (u32)v24);
        const i32 v27 = (i32)((u32)v0 * (u32)v2);
        const i32 v28 = (i32)((u32)v27 + (u32)v24);
        const f32 v29 = p0[v28];
        const f32 v30 = v29 - v4;
        const f32 v31 = expf(v30);
        const f32 v32 = v31 / v14;
        p1[v26] = v32;
      }
    }
  }
}
