"""What tests/check/run.py runs: for each record of engine-logs.jsonl the model, the engine's version and the flags that
its log does not hold. `inferred` names what neither the log nor the record states: it is that with which the numbers come
out, as the record's own note has it. A record that cannot be reproduced stands in NOT_REPRODUCED with the reason."""

MODELS = "engines/models/"  # below tests/data


def case(model, engine, flags="", inferred="", **more):
    return dict(model=model, engine=engine, flags=flags.split(), inferred=inferred, **more)


LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
QWEN_05B, QWEN_27B, QWEN_35B, QWEN_122B = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-35B-A3B", "Qwen/Qwen3.5-122B-A10B"
QWEN_9B, QWEN_30B = MODELS + "qwen3.5-9b.json", MODELS + "qwen3-30b-a3b.json"
E4B, GEMMA_31B = MODELS + "gemma-4-e4b.json", MODELS + "gemma-4-31b.json"
RELEASE = "release"

CASES = {
    # ---- SGLang: the tokens are given, the sizes follow. `#tokens` alone tells no version: the record's date does.
    "sgl-02": case(LLAMA, "sglang@0.4.6", "--attention-backend fa3", RELEASE),
    "sgl-03": case(QWEN_05B, "sglang@0.5.8", "--max-total-tokens 20480", RELEASE),
    "sgl-04": case("moonshotai/Kimi-K2.5", "sglang@0.5.9", "--tp 8", RELEASE),
    "sgl-08": case(MODELS + "glm-4.7-flash.json", "sglang@0.5.9", "--tp 2 --page-size 128", RELEASE + ", the page of Ascend's backend"),
    "sgl-10": case(MODELS + "ling-3.0-flash.json", "sglang@0.5.17", "", RELEASE + ", planned as Kimi Linear, whose layers it has"),
    "sgl-11": case(QWEN_9B, "sglang@0.5.9", "--tp 2", RELEASE),
    "sgl-14": case(QWEN_27B, "sglang@0.5.17", "--mem-fraction-static 0.85 --max-running-requests 32", RELEASE),
    "sgl-15": case(QWEN_27B, "sglang@0.5.17", "--context-length 2048 --max-running-requests 32 --no-radix-cache", RELEASE),
    "sgl-16": case(QWEN_27B, "sglang@0.5.17", "--kv-cache-dtype fp8_e4m3", RELEASE, lines=1),
    "sgl-17": case(E4B, "sglang@0.5.12", "", RELEASE, also="sgl-18"),
    "sgl-18": case(E4B, "sglang@0.5.12", "", RELEASE, also="sgl-17"),
    "sgl-22": case("XiaomiMiMo/MiMo-V2-Flash", "sglang@0.5.8", "--tp 4 --page-size 64", RELEASE),
    "sgl-23": case(MODELS + "qwen3-235b-a22b.json", "sglang@0.4.9", "--tp 4", RELEASE),
    "sgl-24": case(GEMMA_31B, "sglang@0.5.17", "--context-length 16384", RELEASE + ", a windowed model of the same family: only the ratio is told"),
    "sgl-26": case("moonshotai/Kimi-K2-Instruct", "sglang@0.5.5", "--tp 8", RELEASE),

    # ---- vLLM
    "vllm-01": case(LLAMA, "vllm@0.6.4", "--nearest", "0.10.0 for 0.6: one kind of layer, blocks of 16"),
    "vllm-07": case(QWEN_30B, "vllm@0.11.0", "--tp 4"),
    "vllm-08": case("mistralai/Mistral-7B-Instruct-v0.3", "vllm@0.11.0", "--gpu-memory-utilization 0.9", "no window: the decoder is that of v0.2, which has v0.3's layers"),
    "vllm-12": case(MODELS + "qwen3-8b.json", "vllm@0.10.0", "", "0.9 behaves as 0.10.0 for a model of one kind of layer"),
    "vllm-16": case(QWEN_05B, "vllm@0.10.0", "", "0.9 behaves as 0.10.0 for a model of one kind of layer"),
    "vllm-17": case(LLAMA, "vllm@0.10.0", "--block-size 128", "0.9 behaves as 0.10.0 for a model of one kind of layer"),
    "vllm-19": case(LLAMA, "vllm@0.15.0", "", "0.15 rather than 0.16"),
    "vllm-20": case(LLAMA, "vllm@0.15.0", ""),
    "vllm-22": case(QWEN_05B, "vllm@0.17.0", "--gpu-memory-utilization 0.75", RELEASE),
    "vllm-23": case(LLAMA, "vllm@0.15.0", "", RELEASE),
    "vllm-25": case(MODELS + "qwen2.5-1.5b.json", "vllm@0.28.0", ""),
    "vllm-26": case("Qwen/Qwen2.5-3B-Instruct", "vllm@0.11.0", ""),
    "vllm-27": case("Qwen/Qwen2-7B-Instruct", "vllm@0.11.1", ""),
    "vllm-29": case("Qwen/Qwen3-0.6B", "vllm@0.15.1", ""),
    "vllm-38": case("google/gemma-4-26B-A4B", "vllm@0.20.0", "--kv-cache-dtype fp8 --max-num-batched-tokens 4096", "release, fp8, batch"),
    "vllm-40": case("google/gemma-4-E2B-it", "vllm@0.21.0", "--max-num-batched-tokens 8192", "release, batch"),
    "vllm-44": case(MODELS + "qwen3-next-80b.json", "vllm@0.11.0", "--tp 2"),
    "vllm-46": case(QWEN_27B, "vllm@0.19.0", "--max-num-batched-tokens 16384"),
    "vllm-47": case(QWEN_9B, "vllm@0.18.0", "--gpu-memory-utilization 0.9"),
    "vllm-48": case(QWEN_27B, "vllm@0.20.0", "--kv-cache-dtype fp8 --enable-prefix-caching", "prefix caching"),
    "vllm-49": case(QWEN_122B, "vllm@0.19.0", "--kv-cache-dtype fp8 --enable-prefix-caching", "fp8, prefix caching"),
    "vllm-50": case(QWEN_122B, "vllm@0.19.0", "--kv-cache-dtype fp8 --enable-prefix-caching --num-speculative-tokens 1 --draft-layers 1", "fp8, prefix caching"),
    "vllm-51": case(QWEN_35B, "vllm@0.24.0", "--kv-cache-dtype fp8 --enable-prefix-caching --max-num-batched-tokens 8192"),
    "vllm-53": case(QWEN_35B, "vllm@0.20.2", "--kv-cache-dtype fp8_e4m3 --enable-prefix-caching --num-speculative-tokens 2 --draft-layers 1 --max-num-batched-tokens 65536"),
    "vllm-54": case(QWEN_27B, "vllm@0.27.0", "--tp 2 --kv-cache-dtype fp8 --enable-prefix-caching", RELEASE),
    "vllm-55": case(QWEN_27B, "vllm@0.29.0", "--tp 2 --kv-cache-dtype fp8 --enable-prefix-caching", RELEASE),
    "vllm-56": case(QWEN_27B, "vllm@0.27.0", "--tp 2 --kv-cache-dtype fp8 --enable-prefix-caching", RELEASE),
    "vllm-57": case(QWEN_27B, "vllm@0.21.0", "--tp 2 --kv-cache-dtype fp8_e5m2 --enable-prefix-caching --num-speculative-tokens 3 --draft-layers 1 --max-num-batched-tokens 8192"),
    "vllm-58": case(QWEN_27B, "vllm@0.21.0", "--tp 2 --kv-cache-dtype fp8_e5m2 --enable-prefix-caching --num-speculative-tokens 3 --draft-layers 1 --max-num-batched-tokens 8192"),
    "vllm-59": case(QWEN_27B, "vllm@0.21.0", "--kv-cache-dtype fp8 --num-speculative-tokens 3 --draft-layers 1 --no-enable-prefix-caching", "release, no prefix caching"),
    "vllm-63": case(QWEN_27B, "vllm@0.22.0", "--num-speculative-tokens 3 --draft-layers 1 --no-enable-prefix-caching", "release, no prefix caching"),
    "vllm-69": case("zai-org/GLM-5", "vllm@0.19.0", "--tp 8", RELEASE),
    "vllm-71": case("zai-org/GLM-5", "vllm@0.19.0", "--tp 8", RELEASE),
    "vllm-72": case("zai-org/GLM-5.1", "vllm@0.21.0", "--tp 16 --dcp 8 --kv-cache-dtype fp8_ds_mla", "release, fp8_ds_mla"),
    "vllm-73": case(MODELS + "deepseek-v3.2.json", "vllm@0.14.0", "--tp 8 --pp 4", ""),
    "vllm-75": case("deepseek-ai/DeepSeek-V4-Flash", "vllm@0.25.1", "--tp 2 --kv-cache-dtype fp8_ds_mla", "release: 0.23.0 to 0.25.1 print so"),
    "vllm-77": case("deepseek-ai/DeepSeek-V4-Flash", "vllm@0.27.0", "--kv-cache-dtype fp8_ds_mla", "release: 0.27.0 and later print so"),
    "vllm-80": case(MODELS + "whisper-large-v3.json", "vllm@0.15.0", "--max-num-batched-tokens 2048"),
    "vllm-84": case(QWEN_30B, "vllm@0.11.0", "--kv-cache-dtype fp8", "0.11 rather than 0.10.2"),

    # ---- llama.cpp: nothing is taken from the log. --context is of one sequence, n_ctx of all.
    "lcpp-01": case("Qwen/Qwen3-1.7B", "llama.cpp@b6122", "-c 1024 --parallel 1", RELEASE),
    "lcpp-02": case(MODELS + "mistral-7b-v0.1.json", "llama.cpp@b5640", "-c 8192 -ub 256 -fa off --parallel 1", RELEASE),
    "lcpp-03": case("microsoft/Phi-3-mini-4k-instruct", "llama.cpp@b5640", "-c 4096 -ub 256 -fa off --parallel 1", RELEASE),
    "lcpp-04": case("meta-llama/Meta-Llama-3.1-405B", "llama.cpp@b6122", "-c 4096 -fa off --parallel 1", RELEASE),
    "lcpp-05": case(MODELS + "qwen3-235b-a22b.json", "llama.cpp@b5640", "-c 4096 --parallel 1", RELEASE),
    "lcpp-06": case("openai/gpt-oss-20b", "llama.cpp@b6122", "-c 131072 -fa on --parallel 1 -ub 512", RELEASE),
    "lcpp-07": case("openai/gpt-oss-20b", "llama.cpp@b6673", "-c 131072 -fa on --parallel 1 -ub 512", RELEASE),
    "lcpp-08": case("openai/gpt-oss-20b", "llama.cpp@b6673", "-c 8192 -ub 128 -ctk q8_0 -ctv q8_0 --parallel 1", "release, ubatch"),
    "lcpp-11": case(E4B, "llama.cpp@v0.4.0", "-c 102400 -ub 1024 --parallel 1", "release, ubatch"),
    "lcpp-13": case("qwen35-27b-mtp.gguf", "llama.cpp@b8390", "-c 32768 --parallel 4 -kvu -ctk q8_0 -ctv q8_0", RELEASE),
    "lcpp-15": case(QWEN_9B, "llama.cpp@v0.5.0", "-c 8192 --parallel 1", RELEASE),
    "lcpp-20": case(QWEN_27B, "llama.cpp@b8390", "-c 32768 --parallel 1", RELEASE),
    "lcpp-21": case(QWEN_35B, "llama.cpp@b8390", "-c 16384 --parallel 4 -kvu", RELEASE),
    "lcpp-22": case(QWEN_35B, "llama.cpp@v0.5.0", "-c 262144 -ctk q8_0 -ctv q8_0 --parallel 1", RELEASE),
    "lcpp-23": case(QWEN_35B, "llama.cpp@b8390", "-c 54631 --parallel 1", RELEASE),
    "lcpp-25": case(GEMMA_31B, "llama.cpp@v0.4.0", "-ctk q8_0 -ctv q8_0 -fa on --parallel 1", RELEASE, each="-c {cells}"),
    "lcpp-30": case("zai-org/GLM-5.2", "llama.cpp@v0.4.0", "-c 768000 --parallel 1", RELEASE),
    "lcpp-31": case("zai-org/GLM-5.2", "llama.cpp@v0.4.0", "-c 524288 --parallel 1", RELEASE),
    "lcpp-32": case("deepseek-ai/DeepSeek-V4-Flash", "llama.cpp@v0.4.0", "-c 65536 -b 8192 -ub 8192 --parallel 1", "release, context, batch"),
    "lcpp-33": case(E4B, "llama.cpp@v0.4.0", "-c 32768 --swa-full --parallel 1", RELEASE),
    "lcpp-34": case(E4B, "llama.cpp@v0.4.0", "-c 65536 -ctk q8_0 -ctv q8_0 -ub 512 --parallel 1", RELEASE),
    "lcpp-35": case(E4B, "llama.cpp@v0.4.0", "-c 4096 -fa off --swa-full --parallel 1", "release, no flash attention"),
    "lcpp-36": case("nvidia/Qwen3.6-27B-NVFP4", "llama.cpp@b8390", "-c 65536 --parallel 4 -kvu", RELEASE),
    "lcpp-38": case(MODELS + "openllama-3b.json", "llama.cpp@b1000", "-c 512 --parallel 1 --nearest", "b5415 for a release of 2023: one kind of layer"),
    "lcpp-39": case("Qwen/Qwen2-7B-Instruct", "llama.cpp@b5415", "-c 2048 --parallel 1", "release, context"),

    # ---- TensorRT-LLM: tokens are given
    "trt-01": case("moonshotai/Kimi-K2.5", "tensorrt-llm@1.3.0rc9", "--kv-cache-dtype fp8 --manager v1", "release, fp8, manager"),
    "trt-03": case(LLAMA, "tensorrt-llm@0.17.0", "--nearest --manager v1", "release: the oldest known"),
    "trt-05": case("meta-llama/Llama-2-7b-hf", "tensorrt-llm@0.17.0", "--tp 2 --nearest --manager v1", "release: the oldest known"),
    "trt-06": case("meta-llama/Llama-2-7b-hf", "tensorrt-llm@0.8.0", "--nearest --manager v1", "release: the oldest known, block", ),

    # ---- ik_llama.cpp, Ollama
    "ik-01": case("deepseek-ai/DeepSeek-R1", "ik_llama.cpp", "-c 65536 -mla 2 -fa on"),
    "ik-02": case("deepseek-ai/DeepSeek-V3", "ik_llama.cpp", "-c 32768 -mla 3", "-mla"),
    "ik-03": case("deepseek-ai/DeepSeek-R1", "ik_llama.cpp", "-c 16384 -mla 3 -fa on", "-mla"),
    "ik-05": case("moonshotai/Kimi-K2-Instruct", "ik_llama.cpp", "-c 131072 -mla 3 -ctk q8_0 -fa on"),
    "ik-07": case("deepseek-ai/DeepSeek-V2-Lite", "ik_llama.cpp", "-c 65536 -mla 1 -ctk q8_KV -fa off"),
    "oll-02": case(QWEN_30B, "ollama", "-c 32768 --parallel 1"),
    "oll-04": case("google/gemma-3-1b-it", "ollama", "-c 4096 --parallel 1", "context"),
}

OUTSIDE = "the release is older than any that kvatlas describes"
UNKNOWN = "the model's geometry is not known"

NOT_REPRODUCED = {
    "trt-04": UNKNOWN,
    "vllm-02": "vLLM 0.6 printed the concurrency of a context before it refused it; every version known prints the refusal alone",
    "vllm-04": UNKNOWN,
    "vllm-15": UNKNOWN,
    "vllm-32": "printed as if the model had one layer more than its config; the record has no explanation",
    "vllm-35": "the log's numbers are rounded to thousands by the one who reported them",
    "vllm-41": "a build of a pull request: no batch size makes five windowed groups and a full one give this count",
    "vllm-43": "token counts of a fork for Apple's Metal, without memory or flags",
    "vllm-74": "token counts of a fork for Ascend, without memory; its indexer was charged as a whole latent",
    "vllm-76": "a fork with five speculative tokens of a method of its own",
    "vllm-78": "flags that the record lacks: no batch size, state of the scheduler or draft that was tried gives its count",
    "vllm-79": "an instrumented build; the model's config is not known",
    "vllm-81": UNKNOWN + ": Inkling under a fork",
    "vllm-82": "concurrency alone, without the memory: any number of blocks between two would print it",
    "vllm-83": UNKNOWN + ": GLM-5.3-Flash",
    "lcpp-24": UNKNOWN + ": Kolibri-1",
    "lcpp-37": OUTSIDE + ", and gave an encoder a cache",
    "oll-06": "11 times what 4,096 tokens take: another context, or several sequences; the record cannot tell",
    "mlx-03": UNKNOWN + ": sizes of a server's kept prompts",
    "mlc-01": "kvatlas has no policy for MLC-LLM",
}
