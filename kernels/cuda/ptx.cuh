// The instructions that C++ has no name for: tensor-core products, matrix loads, asynchronous copies, fast
// exponentials. tests/gpu/emulate brings its own versions.
#ifndef KVA_KERNELS_CUDA_PTX_H
#define KVA_KERNELS_CUDA_PTX_H

#ifdef KVA_EMULATED
#include "emulated_ptx.h"
#else

__device__ static inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two floats as bf16, `low` in the lower half.
__device__ static inline uint32_t pack_bf16(float low, float high)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// D [16, 8] += A [16, 16] B [16, 8]. With g = lane / 4 and t = lane % 4, a lane holds
//   a[0]: A[g][2 t ..], a[1]: A[g + 8][2 t ..], a[2]: A[g][2 t + 8 ..], a[3]: A[g + 8][2 t + 8 ..]
//   b[0]: B[2 t ..][g], b[1]: B[2 t + 8 ..][g];   d[0], d[1]: D[g][2 t ..], d[2], d[3]: D[g + 8][2 t ..]
__device__ static inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 2-byte elements: lane 8 i + j gives the address of row j of matrix i; r[i] gets elements
// [g][2 t ..] of matrix i, or [2 t ..][g] when transposed.
__device__ static inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

__device__ static inline void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// Element pairs [g][2 t ..] of an 8 x 8 matrix become [2 t ..][g].
__device__ static inline uint32_t transpose_matrix(uint32_t pair)
{
    uint32_t turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}

__device__ static inline void prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// 16 bytes from device to shared memory, past the L1; zeros when `in` is false (`from` is then not read).
__device__ static inline void copy_async(void *to, const void *from, bool in)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(in ? 16 : 0)
                 : "memory");
}

__device__ static inline void copy_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> __device__ static inline void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#endif
#endif
