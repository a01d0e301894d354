// p0: x
// p1: out, written
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef float f32; typedef double f64;

extern "C" __global__ void __launch_bounds__(256) sum_rows_1_32(const f32* p0, f32* p1, const i32 v1, const i32 v2)
{
  const u32 stride = (u32)gridDim.x * blockDim.x;
  u32 at = (u32)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at < (u32)v1; at += stride) {
    const i32 v0 = (i32)at;
    const f32 v3 = -0.0f;
    f32 v4;
    {
      f32 sum4;
      f32 level4[5];
      #pragma unroll 1
      for (u32 leaf4 = 0; leaf4 < 32u; ++leaf4) {
        sum4 = v3;
        for (i32 v5 = (i32)((__brev(leaf4) >> 27)); v5 < v2; v5 += 32) {
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
        #pragma unroll
        for (u32 level = 0; level < 5u; ++level) {
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
      v4 = sum4;
    }
    p1[v0] = v4;
  }
}
