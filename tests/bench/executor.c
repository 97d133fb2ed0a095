// How near the executor is to its device's limits, in one run: the device's read rate and matrix-product rate as
// kvatlas measures them, then decoding at several contexts and one prefill, each as a share of its floor.
//   floor of one decoded token = (weights + the cache that must be read) / read rate
//   floor of a prefill         = the arithmetic of its products and attention / matrix-product rate
// usage: executor MODEL BACKEND DEPTH CONTEXT... (DEPTH 0: all layers). Prints; passes and fails nothing.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kvatlas.h"

enum { DECODED = 32, WARM_UP = 4, PREFILL = 8192, SIDE = 8192, CPU_SIDE = 1024 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int fail(const struct kva_error *error)
{
    char line[1024];
    fprintf(stderr, "executor: %s\n", kva_error_line(error, line, sizeof line));
    return error->status == KVA_MACHINE ? 0 : 1;  // a machine that cannot run it has nothing to show
}

static void stages(struct kva_session *session, double repeats, double read_rate, double flop_rate)
{
    const struct kva_stage_time *times = kva_session_stages(session);
    printf("    %-13s %7s %9s %9s %7s %7s %9s %7s\n", "stage", "calls", "ms", "GB", "GB/s", "of peak", "TFLOP/s",
           "of peak");
    for (int i = 0; i < KVA_N_STAGES; i++) {
        const double seconds = times[i].milliseconds / 1e3;
        if (times[i].calls == 0 || seconds <= 0)
            continue;
        printf("    %-13s %7.0f %9.4f %9.4f %7.0f %6.1f%% %9.2f %6.1f%%\n", kva_stage_name((enum kva_stage)i),
               (double)times[i].calls / repeats, times[i].milliseconds / repeats, times[i].bytes / 1e9 / repeats,
               times[i].bytes / 1e9 / seconds, times[i].bytes / seconds / read_rate * 100,
               times[i].flops / 1e12 / seconds, times[i].flops / seconds / flop_rate * 100);
    }
}

struct bench {
    const struct kva_model *model;
    struct kva_session *session;
    uint32_t *tokens;  // [longest context]
    double read_rate, flop_rate;
    struct kva_error error;
};

static uint64_t fill_to(struct bench *bench, uint64_t from, uint64_t to)
{
    const uint64_t n = to - from;
    return n == 0 || kva_session_pass(bench->session, bench->tokens + from, &n, NULL, &bench->error) == KVA_OK;
}

static bool decode(struct bench *bench, uint64_t n)
{
    const uint64_t one = 1;
    uint32_t token;
    for (uint64_t i = 0; i < n; i++)
        if (kva_session_greedy(bench->session, &token, &bench->error) != KVA_OK ||
            kva_session_pass(bench->session, &token, &one, NULL, &bench->error) != KVA_OK)
            return false;
    return kva_session_sync(bench->session, &bench->error) == KVA_OK;
}

// Bytes that one decoded token must read: every weight but an embedding table of its own, and the live cache.
static double decode_floor_bytes(const struct kva_model *model, const struct kva_plan *plan)
{
    double bytes = (double)plan->need;
    bool head = false;
    for (size_t i = 0; i < model->n_weight_classes; i++)
        head |= strcmp(model->weight_classes[i].name, "head") == 0;
    for (size_t i = 0; i < model->n_weight_classes; i++)
        if (!head || strcmp(model->weight_classes[i].name, "embedding") != 0)
            bytes += (double)model->weight_classes[i].bytes;
    return bytes;
}

static bool bench_decode(struct bench *bench, uint64_t context, bool profiled)
{
    const struct kva_deployment deployment = {.engine = "exact", .context = context};
    struct kva_plan *plan;
    if (kva_plan_make(NULL, bench->model, &deployment, &plan, &bench->error) != KVA_OK ||
        kva_session_reset(bench->session, &bench->error) != KVA_OK || !fill_to(bench, 0, context - DECODED - WARM_UP) ||
        !decode(bench, WARM_UP))
        return false;
    kva_session_stages_reset(bench->session);
    const double start = now();
    if (!decode(bench, DECODED))
        return false;
    const double milliseconds = (now() - start) / DECODED;
    const double floor_ms = decode_floor_bytes(bench->model, plan) / bench->read_rate * 1e3;
    kva_plan_free(plan);
    if (profiled) {
        printf("  one token at %" PRIu64 ", by stage (timing each stage slows the whole)\n", context);
        stages(bench->session, DECODED, bench->read_rate, bench->flop_rate);
    } else
        printf("  decode at %7" PRIu64 "   %9.3f ms a token   floor %8.3f ms   %5.1f %% of the floor's rate\n", context,
               milliseconds, floor_ms, floor_ms / milliseconds * 100);
    return true;
}

static bool bench_prefill(struct bench *bench, uint64_t rows, bool profiled)
{
    double best = 0, flops = 0;
    for (int repeat = 0; repeat < 3; repeat++) {
        if (kva_session_reset(bench->session, &bench->error) != KVA_OK)
            return false;
        kva_session_stages_reset(bench->session);
        const double start = now();
        if (!fill_to(bench, 0, rows) || kva_session_sync(bench->session, &bench->error) != KVA_OK)
            return false;
        const double milliseconds = now() - start;
        best = repeat == 0 || milliseconds < best ? milliseconds : best;
    }
    const struct kva_stage_time *times = kva_session_stages(bench->session);
    for (int i = 0; i < KVA_N_STAGES; i++)
        flops += times[i].flops;
    const double floor_ms = flops / bench->flop_rate * 1e3;
    if (profiled) {
        printf("  prefill of %" PRIu64 ", by stage\n", rows);
        stages(bench->session, 1, bench->read_rate, bench->flop_rate);
    } else
        printf("  prefill of %6" PRIu64 "  %9.3f ms, %.0f tokens/s   floor %8.3f ms   %5.1f %% of the floor's rate\n",
               rows, best, (double)rows / best * 1e3, floor_ms, floor_ms / best * 100);
    return true;
}

static bool run(struct bench *bench, int n, char **contexts, uint64_t prefill, bool profiled)
{
    for (int i = 0; i < n; i++)
        if (!bench_decode(bench, strtoull(contexts[i], NULL, 10), profiled))
            return false;
    return bench_prefill(bench, prefill, profiled);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: executor MODEL BACKEND DEPTH CONTEXT...\n");
        return 2;
    }
    struct bench bench = {0};
    struct kva_atlas *atlas;
    struct kva_model *model;
    uint64_t longest = 0;
    for (int i = 4; i < argc; i++) {
        const uint64_t context = strtoull(argv[i], NULL, 10);
        if (context <= DECODED + WARM_UP) {
            fprintf(stderr, "executor: a context must be above %d\n", DECODED + WARM_UP);
            return 2;
        }
        longest = context > longest ? context : longest;
    }
    const uint64_t prefill = longest < PREFILL ? longest : PREFILL;
    const struct kva_model_options options = {.dtype = KVA_BF16, .layers = strtoull(argv[3], NULL, 10)};
    if (kva_atlas_open(NULL, &atlas, &bench.error) != KVA_OK ||
        kva_model_open(atlas, argv[1], &options, &model, &bench.error) != KVA_OK)
        return fail(&bench.error);
    bench.model = model;
    bench.tokens = malloc(longest * sizeof *bench.tokens);
    if (bench.tokens == NULL)
        return 1;
    for (uint64_t i = 0; i < longest; i++)
        bench.tokens[i] = (uint32_t)(i * 2654435761u % 1000);
    for (int profiled = 0; profiled < 2; profiled++) {
        const struct kva_run_options run_options = {.backend = strcmp(argv[2], "any") == 0 ? NULL : argv[2],
                                                    .dtype = KVA_BF16,
                                                    .policy = "exact",
                                                    .context = longest,
                                                    .sequences = 1,
                                                    .weights = "random",
                                                    .profile = profiled == 1};
        if (kva_session_open(model, &run_options, &bench.session, &bench.error) != KVA_OK)
            return fail(&bench.error);
        const struct kva_device_info *device = kva_session_device(bench.session);
        if (profiled == 0) {
            const uint64_t side = strcmp(device->backend, "cuda") == 0 ? SIDE : CPU_SIDE;
            if (kva_session_ceilings(bench.session, side, &bench.read_rate, &bench.flop_rate, &bench.error) != KVA_OK)
                return fail(&bench.error);
            printf("%s, %zu layers, bf16, on %s (%s, driver %s)\n", argv[1], model->n_layers, device->name,
                   device->backend, device->driver);
            printf("  ceilings measured here: read %.0f GB/s, product of side %" PRIu64 " %.1f TFLOP/s\n",
                   bench.read_rate / 1e9, side, bench.flop_rate / 1e12);
        }
        if (!run(&bench, argc - 4, argv + 4, prefill, profiled == 1))
            return fail(&bench.error);
        kva_session_close(bench.session);
    }
    free(bench.tokens);
    kva_model_close(model);
    kva_atlas_close(atlas);
    return 0;
}
