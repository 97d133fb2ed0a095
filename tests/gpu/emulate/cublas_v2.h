#ifndef KVA_EMULATED_CUBLAS_H
#define KVA_EMULATED_CUBLAS_H

#include <cuda_runtime.h>

typedef struct emulated_blas *cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7 } cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T } cublasOperation_t;
typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69 } cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 } cublasMath_t;

cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *memory, size_t bytes);
const char *cublasGetStatusString(cublasStatus_t status);
// Only T x N, as linear.cu calls it.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                               int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType_t a_type,
                               int64_t a_stride, const void *b, cudaDataType_t b_type, int64_t b_stride,
                               const void *beta, void *c, cudaDataType_t c_type, int64_t c_stride,
                               cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

#endif
