// The table of operations that the reference executor runs on. kernels/cpu is the specification, in portable C;
// kernels/cuda does the same on a GPU. Nothing here knows a model.
//
// Element types: `act` below is the run's type, KVA_F32 or KVA_BF16, the same for weights, activations and caches of a
// run; sums are float32 everywhere. The residual stream and the logits are float32. Matrices are row-major; a row of
// an activation has a stride, in elements. Operations are ordered and may be asynchronous; `sync` waits.
#ifndef KVA_KERNELS_H
#define KVA_KERNELS_H

#include "kvatlas.h"

#define KVA_KERNELS_ABI 2
#define KVA_NO_TOKEN UINT32_MAX  // what argmax says of a row that is not all numbers
#define KVA_ATTENTION_SPLITS 64  // parts that decode attention may cut a long cache into

struct kva_device;

// Some rows of a pass that belong to one sequence.
struct kva_span {
    uint32_t sequence;   // slot in the caches
    uint32_t first_row;  // in the pass's activations
    uint32_t rows;
    uint32_t past;  // tokens of the sequence before the first row: row r stands at position past + r
};

struct kva_linear_args {
    const void *x;       // act [rows, n_in], stride x_stride
    const void *weight;  // act [n_out, n_in]
    void *y;             // [rows, n_out], stride y_stride
    uint64_t rows, n_in, n_out, x_stride, y_stride;
    bool y_f32;       // y is float32, else act
    bool accumulate;  // y += x W^T, else y = x W^T
};

struct kva_norm_args {
    const void *x;       // [rows, width], stride x_stride
    void *y;             // act [rows, width], stride y_stride; may be x itself
    const void *weight;  // act [width]
    const void *bias;    // act [width]; LayerNorm's, may be NULL
    uint64_t rows, width, x_stride, y_stride;
    bool x_f32;       // x is float32, else act
    bool layer_norm;  // subtract the mean, else RMS
    float eps;
    float weight_offset;  // y = norm(x) * (weight + weight_offset) + bias
};

// Norm of every head of a row by itself: x act [rows, heads, head_dim], in place.
struct kva_head_norm_args {
    void *x;
    const void *weight;  // act [head_dim]
    uint64_t rows, stride, heads, head_dim;
    float eps, weight_offset;
};

// Rotates the first rotary_dim elements of every head, halves as pairs (element j with j + rotary_dim / 2), in place.
struct kva_rope_args {
    void *x;                           // act [rows, heads, head_dim]
    const uint32_t *positions;         // [rows]
    const float *inverse_frequencies;  // device, [rotary_dim / 2]
    uint64_t rows, stride, heads, head_dim, rotary_dim;
    float scale;  // attention_factor: cos and sin are multiplied by it
};

// Scaled dot-product attention with a causal mask. The key at position p of a sequence is
//   row p - past of k (and v)            when fresh and p >= past,
//   slot p % cache_rows of its cache     else.
// The query of row r sees keys at positions max(0, past + r - window + 1) .. past + r (window 0: from 0).
// Head h of q reads key head h / (heads / kv_heads) and that value head. With `paired` (differential attention) head
// h = 2 j + s reads key head 2 (j / group) + s, group = heads / kv_heads, and the two value heads 2 (j / group) and
// 2 (j / group) + 1 as one of width 2 v_dim; its output is [2 v_dim] wide.
struct kva_attention_args {
    const void *q;        // act [rows, heads, k_dim]
    const void *k;        // act [rows, kv_heads, k_dim], of this pass
    const void *v;        // act [rows, kv_heads, v_dim]
    const void *cache_k;  // act [sequences, cache_rows, kv_heads, k_dim]
    const void *cache_v;  // act [sequences, cache_rows, kv_heads, v_dim]
    void *out;            // act [rows, heads, v_dim or 2 v_dim]
    uint64_t q_stride, k_stride, v_stride, out_stride, cache_rows;
    bool fresh;
    bool paired;
    const struct kva_span *spans;       // device
    const struct kva_span *host_spans;  // the same on the host
    uint32_t n_spans;
    uint32_t heads, kv_heads, k_dim, v_dim;
    uint64_t window;
    float scale;
    float softcap;   // s = softcap * tanh(s / softcap) before the mask; 0: none
    float *scratch;  // [n_spans, heads, KVA_ATTENTION_SPLITS, out width + 2], for one-row spans
};

// Stores the last min(rows, cache_rows) rows of every span at slot position % cache_rows.
struct kva_cache_write_args {
    const void *k, *v;  // act [rows, kv_heads * dim]
    void *cache_k, *cache_v;
    uint64_t k_stride, v_stride, k_width, v_width, cache_rows;
    const struct kva_span *spans;  // device
    const struct kva_span *host_spans;
    uint32_t n_spans;
};

// y = activation(gate) * up, gate and up in one buffer: act [rows, 2 * width], gate first.
struct kva_glu_args {
    const void *gate_up;
    void *y;  // act [rows, width]
    uint64_t rows, width, gate_up_stride, y_stride;
    uint32_t activation;  // enum kva_glu
};
enum kva_glu { KVA_GLU_SILU, KVA_GLU_GELU_TANH, KVA_GLU_GELU };

// Causal convolution of every channel with its own K taps, then SiLU; the state holds the K - 1 inputs before the
// span, oldest first, and afterwards the span's last K - 1. A span with past 0 begins with zeros, whatever the state's
// memory holds.
struct kva_conv_args {
    const void *x;       // act [rows, channels], stride x_stride
    const void *weight;  // act [channels, K]
    const void *bias;    // act [channels] or NULL
    void *y;             // act [rows, channels], stride y_stride
    void *state;         // act [sequences, channels, K - 1]
    uint64_t channels, taps, x_stride, y_stride;
    const struct kva_span *spans;
    const struct kva_span *host_spans;
    uint32_t n_spans;
};

// Mamba-1 selective scan: dt = softplus(dt + dt_bias), A = -exp(a_log),
//   h = exp(dt A) h + dt B x        y = C . h + D x          (no gate)
// A span with past 0 begins with h = 0, whatever the state's memory holds.
struct kva_scan_args {
    const void *x;        // act [rows, channels]
    const void *dt;       // act [rows, channels], before the bias
    const void *b, *c;    // act [rows, n_state], stride bc_stride
    const float *a_log;   // [channels, n_state]
    const void *d;        // act [channels]
    const void *dt_bias;  // act [channels]
    void *y;              // act [rows, channels]
    void *state;          // act [sequences, channels, n_state]
    uint64_t channels, n_state, x_stride, dt_stride, bc_stride, y_stride;
    const struct kva_span *spans;
    const struct kva_span *host_spans;
    uint32_t n_spans;
};

// y = silu(gate) * x, elementwise: act [rows, width].
struct kva_gate_args {
    const void *gate, *x;
    void *y;
    uint64_t rows, width, gate_stride, x_stride, y_stride;
};

// Differential attention's end: x holds act [rows, heads, width] (width = 2 head_dim); for every pair of heads
//   y[j] = rms_norm(x[2 j] - lambda x[2 j + 1]) * weight * (1 - lambda_init),
//   lambda = exp(q1 . k1) - exp(q2 . k2) + lambda_init
struct kva_differential_args {
    const void *x;
    void *y;                         // act [rows, heads / 2, width]
    const float *q1, *k1, *q2, *k2;  // [head_dim]
    const void *weight;              // act [width]
    uint64_t rows, heads, width, head_dim, x_stride, y_stride;
    float lambda_init, eps;
};

enum kva_fill { KVA_FILL_UNIFORM, KVA_FILL_A_LOG };

// Values that depend on (seed, index) alone, the same on every backend. UNIFORM: mean + scale * u, u in [-1, 1);
// A_LOG: log(1 + index % period).
struct kva_fill_args {
    void *y;
    enum kva_dtype dtype;  // KVA_F32 or KVA_BF16
    uint64_t elements, seed, period;
    enum kva_fill fill;
    float mean, scale;
};

struct kva_kernels {
    uint32_t abi;      // KVA_KERNELS_ABI
    const char *name;  // "cpu", "cuda"

    // act: the run's element type. workspace_bytes: what matrix products may use; 0: none.
    enum kva_status (*open)(enum kva_dtype act, struct kva_device **device, struct kva_error *error);
    void (*close)(struct kva_device *device);
    void (*info)(struct kva_device *device, struct kva_device_info *info);

    // Memory. alloc returns whole pages; the memory is not cleared. used: the bytes in use by the driver's account.
    enum kva_status (*alloc)(struct kva_device *device, uint64_t bytes, void **memory, struct kva_error *error);
    void (*free)(struct kva_device *device, void *memory, uint64_t bytes);
    uint64_t (*used)(struct kva_device *device);
    void (*set_workspace)(struct kva_device *device, void *memory, uint64_t bytes);
    uint64_t workspace_bytes;  // what set_workspace wants; 0: it needs none

    enum kva_status (*upload)(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                              struct kva_error *error);
    enum kva_status (*download)(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                                struct kva_error *error);  // waits
    enum kva_status (*clear)(struct kva_device *device, void *memory, uint64_t bytes, struct kva_error *error);
    enum kva_status (*sync)(struct kva_device *device, struct kva_error *error);

    // Stages for --profile: device time between begin and end, summed by stage. Free when profiling is off.
    void (*profile)(struct kva_device *device, bool on);
    void (*stage_begin)(struct kva_device *device, enum kva_stage stage);
    void (*stage_end)(struct kva_device *device, enum kva_stage stage);
    void (*stage_times)(struct kva_device *device, double milliseconds[KVA_N_STAGES],
                        uint64_t calls[KVA_N_STAGES]);  // waits
    void (*stage_reset)(struct kva_device *device);

    // Measured ceilings: bytes read per second from device memory, flop per second of a side^3 product in act.
    enum kva_status (*ceilings)(struct kva_device *device, uint64_t side, double *read_rate, double *flop_rate,
                                struct kva_error *error);

    // Operations. All pointers inside the arguments are device memory unless named host_.
    enum kva_status (*fill)(struct kva_device *, const struct kva_fill_args *, struct kva_error *);
    // out float32 [rows, width] = table act [n, width] row tokens[r], times scale
    enum kva_status (*embed)(struct kva_device *, const void *table, const uint32_t *tokens, float *out, uint64_t rows,
                             uint64_t width, float scale, struct kva_error *);
    enum kva_status (*linear)(struct kva_device *, const struct kva_linear_args *, struct kva_error *);
    // x [rows, width] += bias act [width]; x_f32: x is float32, else act
    enum kva_status (*add_bias)(struct kva_device *, void *x, const void *bias, uint64_t rows, uint64_t width,
                                uint64_t stride, bool x_f32, struct kva_error *);
    // x float32 [rows, width] += y act [rows, width], both dense
    enum kva_status (*add)(struct kva_device *, float *x, const void *y, uint64_t rows, uint64_t width,
                           struct kva_error *);
    enum kva_status (*norm)(struct kva_device *, const struct kva_norm_args *, struct kva_error *);
    enum kva_status (*head_norm)(struct kva_device *, const struct kva_head_norm_args *, struct kva_error *);
    enum kva_status (*rope)(struct kva_device *, const struct kva_rope_args *, struct kva_error *);
    enum kva_status (*attention)(struct kva_device *, const struct kva_attention_args *, struct kva_error *);
    enum kva_status (*cache_write)(struct kva_device *, const struct kva_cache_write_args *, struct kva_error *);
    enum kva_status (*glu)(struct kva_device *, const struct kva_glu_args *, struct kva_error *);
    enum kva_status (*conv)(struct kva_device *, const struct kva_conv_args *, struct kva_error *);
    enum kva_status (*scan)(struct kva_device *, const struct kva_scan_args *, struct kva_error *);
    enum kva_status (*gate)(struct kva_device *, const struct kva_gate_args *, struct kva_error *);
    enum kva_status (*differential)(struct kva_device *, const struct kva_differential_args *, struct kva_error *);
    // to[r] = from[rows_index[r]], rows of `bytes` bytes (a multiple of 4), strides in bytes
    enum kva_status (*gather)(struct kva_device *, void *to, uint64_t to_stride, const void *from, uint64_t from_stride,
                              const uint32_t *rows_index, uint64_t rows, uint64_t bytes, struct kva_error *);
    // x float32 = cap * tanh(x / cap)
    enum kva_status (*softcap)(struct kva_device *, float *x, uint64_t elements, float cap, struct kva_error *);
    // tokens[r] = the lowest index of the largest of x float32 [rows, width]; KVA_NO_TOKEN where a NaN or +infinity is
    // among them
    enum kva_status (*argmax)(struct kva_device *, const float *x, uint64_t rows, uint64_t width, uint32_t *tokens,
                              struct kva_error *);
};

// What kvatlas-cpu.so and kvatlas-cuda.so export, under the name KVA_KERNELS_SYMBOL.
#define KVA_KERNELS_SYMBOL "kva_kernels"
typedef const struct kva_kernels *(*kva_kernels_entry)(void);

#endif
