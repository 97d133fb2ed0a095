// The insides of a session: one device, weights, caches, the buffers of a pass.
#ifndef KVA_EXEC_SESSION_H
#define KVA_EXEC_SESSION_H

#include "exec/caches.h"
#include "exec/ledger.h"
#include "exec/weights.h"

// Buffers of one pass, all in one allocation (docs/executor-memory.md). R rows, S sequences, LR rows of logits.
struct kva_buffers {
    uint32_t *tokens, *positions;          // [R]
    struct kva_span *spans, *last_spans;   // [S]
    uint32_t *last_index;                  // [S] row of each finished sequence's last token
    float *residual;                       // [R, hidden]
    void *normed;                          // act [R, hidden]
    void *mixer_in;                        // act [R, widest mixer input]
    void *mixer_out;                       // act [R, widest mixer output]
    void *attn_combined;                   // act [R, heads * v_dim]; differential attention only
    void *conv_out, *ssm_x, *dt, *memory;  // act [R, d_inner], [R, dt_rank + 2 N], [R, d_inner] twice
    void *projected;                       // act [R, hidden]; decoders with norms after a block only
    void *gate_up, *ffn_act;               // act [R, 2 * intermediate], [R, intermediate]
    float *pruned_residual;                // [S, hidden]
    void *pruned_memory;                   // act [S, d_inner]
    void *head_in;                         // act [LR, hidden]
    float *logits;                         // [LR, vocab]
    uint32_t *chosen;                      // [S]
    float *scratch;                        // [S, heads, KVA_ATTENTION_SPLITS, head width + 2]
    float *rope_main, *rope_local;         // [rotary_dim / 2]
};

// What the decoder's shape is, read off the weights and the recipe once.
struct kva_shape {
    uint64_t hidden, vocab, intermediate, heads, head_dim;
    uint64_t mixer_in, mixer_out, q_width;  // widest over the layers
    uint64_t d_inner, dt_rank, n_state;     // 0: no state layers
    bool post_norm;
    float attention_scale, attention_softcap, final_softcap, norm_eps, norm_offset, embed_scale;
    float rope_main_scale, rope_local_scale;
    uint64_t rope_main_dim, rope_local_dim;
    uint32_t activation;               // enum kva_glu
    int64_t memory_layer, prune_from;  // -1: none
};

// The rows that a run of layers works on: all rows of a pass, or each finished sequence's last.
struct kva_rows {
    uint64_t rows;
    float *residual;
    const void *memory;  // act [rows, d_inner]; NULL: no memory yet
    const uint32_t *positions;
    const struct kva_span *spans, *host_spans;
    uint32_t n_spans;
    uint32_t widest;  // rows of the longest span
};

struct kva_session {
    const struct kva_model *model;
    struct kva_run_options options;
    const struct kva_kernels *kernels;
    struct kva_device *device;
    struct kva_device_info info;
    struct kva_ledger ledger;
    struct kva_weights weights;
    struct kva_caches caches;
    struct kva_shape shape;
    struct kva_buffers buffers;
    enum kva_dtype act;
    uint64_t rows, logit_rows, sequences;
    uint64_t *past;                                      // [S] tokens of each sequence so far
    uint32_t *host_tokens, *host_positions, *host_last;  // [R], [R], [S]
    struct kva_span *host_spans, *host_last_spans;       // [S]
    uint32_t *greedy;                                    // [S]
    bool pass_failed;
    uint64_t pruned_rows;
    struct kva_stage_time stages[KVA_N_STAGES];
};

// layout.c: reads the shape off the weights; sizes and places the buffers.
enum kva_status kva_shape_read(struct kva_session *session, struct kva_error *error);
enum kva_status kva_buffers_alloc(struct kva_session *session, struct kva_error *error);

// blocks.c: one decoder layer over some rows.
enum kva_status kva_layer_forward(struct kva_session *session, size_t layer, const struct kva_rows *rows,
                                  struct kva_error *error);

// stage.c: begins and ends a timed stage, and counts the bytes and operations it must do.
void kva_stage_begin(struct kva_session *session, enum kva_stage stage);
void kva_stage_end(struct kva_session *session, enum kva_stage stage, double bytes, double flops);

#endif
