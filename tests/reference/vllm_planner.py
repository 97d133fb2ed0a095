"""Run the KV-cache planner of one release of vLLM over cases: `vllm_planner.py DIR VERSION MODELS < cases > results`.

DIR holds the release's Python sources, MODELS the catalogue of configs; cases and results are one JSON object a line.
The specs come from the layers' own `get_kv_cache_spec` (written out here for 0.10.0 to 0.11.0, where the model runner
built them), the block size of a model with states from the release's own alignment, and everything after that from its
planner.  The attention backend is taken to be FLASH_ATTN on one Hopper GPU: kernel blocks are multiples of 16.
"""
import ast
import copy
import dataclasses
import importlib
import json
import math
import re
import sys
import types

import vllm_models
import vllm_sources

Bag = types.SimpleNamespace
GIB = 2 ** 30
ATTENTION = ("vllm.model_executor.layers.attention.attention", "vllm.attention.layer")
MLA = ("vllm.model_executor.layers.attention.mla_attention", "vllm.model_executor.layers.mla_attention",
       "vllm.attention.layer")
CHUNKED = ("vllm.model_executor.layers.attention.chunked_local_attention",
           "vllm.attention.layers.chunked_local_attention")
CROSS = ("vllm.model_executor.layers.attention.cross_attention", "vllm.attention.layers.cross_attention")
DEEPSEEK = ("vllm.model_executor.models.deepseek_v2",)
V4 = ("vllm.models.deepseek_v4.attention", "vllm.model_executor.layers.deepseek_v4_attention")
V4_COMPRESSOR = ("vllm.models.deepseek_v4.compressor", "vllm.model_executor.layers.deepseek_compressor")
V4_CACHES = {  # kind of cache: where its class is, and the names it has had
    "compressed_latent": (V4, ("DeepseekV4Attention", "DeepseekV4MLAAttention")),
    "compressed_index": (V4, ("DeepseekV4IndexerCache",)),
    "window_latent": (("vllm.v1.attention.backends.mla.sparse_swa",), ("DeepseekV4SWACache",)),
    "compressor": (V4_COMPRESSOR, ("CompressorStateCache",)),
    "index_compressor": (V4_COMPRESSOR, ("CompressorStateCache",)),
}
MAMBA = ("vllm.model_executor.layers.mamba.abstract",)


class Release:
    def __init__(self, root, version):
        self.version = tuple(int(part) for part in version.split("."))
        self.finder = vllm_sources.load(root)
        self.methods = {}
        self.torch = importlib.import_module("torch")
        registry = importlib.import_module("vllm.multimodal").MULTIMODAL_REGISTRY
        registry.get_encdec_max_encoder_len = lambda config: 1500  # Whisper; 0.10.2 only
        self.interface = importlib.import_module("vllm.v1.kv_cache_interface")
        self.utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.planner = self.utils
        if self.finder.path_of("vllm.v1.core.kv_cache_planning"):
            self.planner = importlib.import_module("vllm.v1.core.kv_cache_planning")
            platform = importlib.import_module("vllm.platforms").current_platform
            builder = "vllm.v1.core.kv_cache_planning.DefaultKVCacheConfigBuilder"
            platform.get_kv_cache_config_builder_cls = lambda config: builder
        importlib.import_module("vllm.config.cache").get_kv_cache_dtype_handler = lambda kv_type: None
        managers = "vllm.v1.core.single_type_kv_cache_manager"
        with open(self.finder.path_of(managers), encoding="utf-8") as file:
            stand_ins = {name: vllm_sources.anything(name) for name in re.findall(r"\b\w+Manager\b", file.read())}
        if register := self.finder.lift(managers, "register_all_kvcache_specs", names=stand_ins):
            register(None)
        self.mamba = self.finder.lift("vllm.model_executor.layers.mamba.mamba_utils", "MambaStateShapeCalculator",
                                      names={"is_conv_state_dim_first": lambda: False})

    def lift_method(self, modules, cls, method, **names):
        """A method of a class of the release as a plain function, or None."""
        key = (modules, cls, method)
        if names or key not in self.methods:
            self.methods[key] = self.find_method(modules, cls, method, names)
        return self.methods[key]

    def find_method(self, modules, cls, method, names):
        for module in modules:
            path = self.finder.path_of(module)
            if path is None:
                continue
            tree = vllm_sources.parse(path)
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name == cls:
                    for member in node.body:
                        if isinstance(member, ast.FunctionDef) and member.name == method:
                            member = copy.deepcopy(member)
                            member.decorator_list, member.returns = [], None
                            for arg in member.args.args:
                                arg.annotation = None
                            scope = vllm_sources.Scope(self.finder, module, tree)
                            scope.update(names)
                            code = ast.fix_missing_locations(ast.Module([member], []))
                            exec(compile(code, path, "exec"), scope)
                            return scope[method]
        return None


class Backend:
    """FLASH_ATTN on Hopper, and Triton or FlashInfer for the types that need them."""
    def __init__(self, release, sparse):
        self.release, self.sparse = release, sparse  # sparse: FLASHMLA_SPARSE beside an indexer

    def get_supported_kernel_block_sizes(self, kv_cache_spec=None):
        return [importlib.import_module("vllm.v1.attention.backend").MultipleOf(16)]

    def is_mla(self):
        return False

    def get_name(self):
        return "FLASH_ATTN"

    def customize_spec(self, spec):
        backends = [("triton_attn", "TritonAttentionBackend"), ("flashinfer", "FlashInferBackend")]
        if isinstance(spec, self.release.interface.MLAAttentionSpec):
            backends = [("mla.flashmla_sparse", "FlashMLASparseBackend")] if self.sparse else []
        for module, cls in backends:
            if change := self.release.lift_method((f"vllm.v1.attention.backends.{module}",), cls, "customize_spec"):
                spec = change(None, spec)
        return spec


class Case:
    """One model in one deployment, as the release's configuration objects would describe it."""
    def __init__(self, release, case, models):
        self.release, self.case = release, case
        self.deployment = d = case["deployment"]
        self.caches, self.facts = vllm_models.get(models, case["model"])
        torch = release.torch
        self.kv_type = "fp8_ds_mla" if self.facts.get("ds_v4") else d.get("kv_type", "auto")
        table = release.finder.lift("vllm.utils.torch_utils", "STR_DTYPE_TO_TORCH_DTYPE") or release.finder.lift(
            "vllm.utils", "STR_DTYPE_TO_TORCH_DTYPE")
        self.dtype = torch.bfloat16 if self.kv_type == "auto" else table[self.kv_type]
        tp, heads = d.get("tp", 1), self.facts.get("heads", 1)
        spec_tokens = d.get("spec_tokens", 0)
        self.tp, self.spec_tokens = tp, spec_tokens
        if self.facts.get("pads_v") and release.version < (0, 20, 0):  # mimo_v2_flash.py filled V up to the width of K
            self.caches = [{**c, "v_dim": c["k_dim"]} for c in self.caches]
        self.backend = Backend(release, any(c["kind"] == "index" for c in self.caches))
        context = d["max_model_len"]
        self.config = Bag(
            model_config=Bag(
                max_model_len=context, original_max_model_len=-1 if d.get("auto_fit") else context,
                use_mla=self.facts.get("mla", False), dtype=torch.bfloat16, architecture="Model", architectures=["Model"],
                get_num_kv_heads=lambda parallel: max(1, heads // tp), get_head_size=lambda: self.facts["head_size"],
                supports_mamba_prefix_caching=self.facts.get("prefix_all", False), model="model", runner_type="generate",
                get_mamba_chunk_size=lambda: self.facts.get("chunk_size"), is_hybrid=self.facts.get("hybrid", False),
                supports_kv_cache_grouping=False, hf_config=Bag(model_type="model"), hf_text_config=Bag(),
                _model_info=Bag(architecture="Model")),
            cache_config=Bag(
                block_size=d.get("block_size", 16), cache_dtype=self.kv_type, num_gpu_blocks_override=d.get(
                    "num_gpu_blocks_override"), mamba_block_size=None, mamba_page_size_padded=None,
                mamba_cache_mode=d.get("mamba_cache_mode", "none"), mamba_cache_dtype="auto", mamba_ssm_cache_dtype="auto",
                enable_prefix_caching=d.get("prefix_caching", True), user_specified_mamba_block_size=False,
                skip_page_size_padded=None, kv_cache_dtype_skip_layers=[], kv_cache_layout=None, calculate_kv_scales=False,
                prefix_cache_retention_interval=None, use_kda_recoverssm=False, use_replayssm=False),
            scheduler_config=Bag(
                max_num_batched_tokens=d["max_num_batched_tokens"], async_scheduling=d.get("async", True),
                max_num_encoder_input_tokens=d["max_num_batched_tokens"], enable_chunked_prefill=True,
                disable_hybrid_kv_cache_manager=not d.get("hybrid_manager", True)),
            parallel_config=Bag(
                tensor_parallel_size=tp, pipeline_parallel_size=d.get("pp", 1),
                decode_context_parallel_size=d.get("dcp", 1), prefill_context_parallel_size=1),
            device_config=Bag(device_type="cuda"), attention_config=Bag(hisparse_config=None, backend=None),
            compilation_config=Bag(), kv_transfer_config=None, kv_events_config=None, speculative_config=None,
            num_speculative_tokens=spec_tokens, num_prefill_lookahead_tokens=0, use_v2_model_runner=d.get("runner_v2", False))
        if any(c["kind"] == "cross" for c in self.caches) and release.version < (0, 13, 0):
            # config/vllm.py set the budget of an encoder-decoder model to its encoder's length
            self.config.scheduler_config.max_num_encoder_input_tokens = 1500
        batches = release.lift_method(("vllm.config.vllm",), "VllmConfig", "max_concurrent_batches")
        in_flight = release.lift_method(("vllm.config.vllm",), "VllmConfig", "max_in_flight_tokens")
        if in_flight:
            self.config.max_concurrent_batches = batches(self.config)
            self.config.max_in_flight_tokens = in_flight(self.config)
        cache = self.config.cache_config
        cache.get_resolved_kv_cache_layout = lambda: importlib.import_module(
            "vllm.v1.kv_cache_layout").KVCacheLayout[cache.kv_cache_layout]

    # --- states -------------------------------------------------------------------------------------------------------
    def state_shapes(self, c):
        """(shapes, dtypes) of one layer's states on one rank."""
        release, tp, spec = self.release, self.tp, self.spec_tokens
        bf16, fp32 = self.release.torch.bfloat16, self.release.torch.float32
        mamba, extra = release.mamba, {}
        ssm = {"float32": fp32, "float16": release.torch.float16}.get(c.get("ssm_dtype"), bf16)
        if self.facts.get("nemotron_h") and release.version >= (0, 13, 0):
            ssm = fp32 if release.version >= (0, 20, 0) else release.torch.float16  # models/config.py, no key in the config
        if c["mixer"] == "gdn":
            if release.version < (0, 17, 0):
                ssm = bf16
            shapes = mamba.gated_delta_net_state_shape(tp, c["k_heads"], c["v_heads"], c["k_dim"], c["v_dim"], c["kernel"], spec)
        elif c["mixer"] == "mamba2":
            if spec:
                extra["num_spec"] = spec
            if mamba is None:  # 0.10.0: granitemoehybrid.py get_mamba_state_shape_from_config
                groups = c["groups"] + (0 if c["groups"] % tp == 0 else tp - c["groups"])
                shapes = ((c["kernel"] - 1, (c["inner"] + 2 * groups * c["state"]) // tp), (c["heads"] // tp, c["head"], c["state"]))
            else:
                shapes = mamba.mamba2_state_shape(tp_world_size=tp, intermediate_size=c["inner"], n_groups=c["groups"],
                                                  num_heads=c["heads"], head_dim=c["head"], state_size=c["state"],
                                                  conv_kernel=c["kernel"], **extra)
        elif c["mixer"] == "mamba1":
            if mamba is None:
                shapes = ((c["kernel"] - 1, c["inner"] // tp), (c["inner"] // tp, c["state"]))
            else:
                shapes = mamba.mamba1_state_shape(tp_world_size=tp, intermediate_size=c["inner"], state_size=c["state"],
                                                  conv_kernel=c["kernel"])
        elif c["mixer"] == "short_conv":
            shapes = mamba.short_conv_state_shape(tp_world_size=tp, intermediate_size=c["inner"], conv_kernel=c["kernel"])
        else:
            shapes = mamba.kda_state_shape(tp, c["heads"], c["head"], conv_kernel_size=c["kernel"])
            ssm = fp32
        return tuple(map(tuple, shapes)), (bf16,) * (len(shapes) - 1) + ((ssm,) if len(shapes) > 1 else (bf16,))

    def checkpoint_alignment(self):
        """Tokens between the states that a gated delta net can hand out in a prefill (FlashInfer's kernel, on Hopper)."""
        if any(c.get("mixer") == "gdn" for c in self.caches) and self.release.lift_method(
                ("vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn",), "QwenGatedDeltaNetAttention",
                "get_prefill_checkpoint_alignment"):
            return self.release.finder.lift("vllm.v1.attention.backends.gdn_attn", "FLASHINFER_GDN_CHECKPOINT_ALIGNMENT")
        return None

    def checkpoint(self, c, spec):
        """The mixers' own get_kv_cache_spec, which call the base class's and add a state for a prefill checkpoint."""
        if c["mixer"] == "mamba2" and self.release.lift_method(
                ("vllm.model_executor.layers.mamba.mamba_mixer2",), "MambaMixer2", "get_kv_cache_spec"):
            return dataclasses.replace(spec, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=1)
        if c["mixer"] == "gdn" and self.config.cache_config.mamba_cache_mode == "align" and (tokens := self.checkpoint_alignment()):
            return dataclasses.replace(spec, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=tokens)
        return spec

    def align(self):
        """The release's own choice of block size for a model with states and attention."""
        release, config = self.release, self.config
        shapes, dtypes = self.state_shapes(next(c for c in self.caches if c["kind"] == "state"))
        model = Bag(get_mamba_state_shape_from_config=lambda config: shapes,
                    get_mamba_state_dtype_from_config=lambda config: dtypes)
        registry = Bag(resolve_model_cls=lambda *args, **keys: (model, "Model"))
        importlib.import_module("vllm.model_executor.models").ModelRegistry = registry
        names = {"ModelRegistry": registry, "logger": self.release.finder.lines.logger(),
                 "current_platform": Bag(is_device_capability=lambda n: False, is_device_capability_family=lambda n: False),
                 "envs": Bag(VLLM_USE_V1=True, VLLM_ATTENTION_BACKEND=None)}
        modes = release.lift_method(("vllm.model_executor.models.config",), "MambaModelConfig", "verify_and_update_config", **names)
        old = release.lift_method(("vllm.model_executor.models.config",), "HybridAttentionMambaModelConfig",
                                  "verify_and_update_config",
                                  MambaModelConfig=Bag(verify_and_update_config=lambda config: modes and modes(None, config)),
                                  **names)
        config.compilation_config.cudagraph_mode = None
        if self.facts.get("attention_free"):
            if modes:
                modes(None, config)
            return
        old(None, config)
        new = release.lift_method(("vllm.platforms.interface",), "Platform", "_align_hybrid_block_size", **names)
        if new:
            stub = importlib.import_module("vllm.config.vllm")
            from contextlib import nullcontext
            stub.set_current_vllm_config = lambda config: nullcontext()
            mamba = importlib.import_module("vllm.model_executor.layers.mamba.abstract")
            mamba.get_mamba_prefill_checkpoint_alignment = lambda config: self.checkpoint_alignment()
            cls = Bag(_find_non_ssm_backends=lambda config: [self.backend], _get_indexer_block_alignment=lambda config: None)
            new(cls, config, self.backend)

    # --- specs --------------------------------------------------------------------------------------------------------
    def spec_v4(self, c):
        """DeepSeek-V4 with the fp8 cache, which its attention turns into fp8_ds_mla."""
        where, classes = V4_CACHES[c["kind"]]
        make = next(filter(None, (self.release.lift_method(where, cls, "get_kv_cache_spec") for cls in classes)))
        torch = self.release.torch
        dtype = torch.float32 if c.get("dtype_bytes") == 4 else torch.uint8
        return make(Bag(compress_ratio=c.get("ratio", 1), kv_cache_dtype=self.kv_type, head_dim=c["k_dim"], dtype=dtype,
                        kv_cache_torch_dtype=torch.uint8, cache_config=self.config.cache_config, block_size=c.get("block"),
                        state_dim=c["k_dim"], sliding_window=c.get("window"), window_size=c.get("window"),
                        bounded_replay=False, packed_bytes_per_token=584, packed_page_alignment=576,
                        packed_block_stride_alignment=None), self.config)

    def spec(self, c):
        release, interface, kind = self.release, self.release.interface, c["kind"]
        if kind in V4_CACHES:
            return self.spec_v4(c)
        if kind == "state":
            shapes, dtypes = self.state_shapes(c)
            layer = Bag(get_state_shape=lambda: shapes, get_state_dtype=lambda: dtypes, mamba_type="mamba2",
                        is_kv_cache_tp_replicated=False, get_prefill_checkpoint_alignment=lambda: None)
            make = release.lift_method(MAMBA, "MambaBase", "get_kv_cache_spec")
            if make and not self.spec_tokens:
                return self.checkpoint(c, make(layer, self.config))
            cache = self.config.cache_config
            keys = {"shapes": shapes, "dtype": self.dtype, "dtypes": dtypes, "page_size_padded": cache.mamba_page_size_padded,
                    "num_speculative_blocks": self.spec_tokens, "mamba_cache_mode": cache.mamba_cache_mode,
                    "block_size": cache.mamba_block_size or self.config.model_config.max_model_len}
            return self.build(interface.MambaSpec, keys)
        heads = c["kv_heads"] if kind in ("latent", "index") else max(1, c["kv_heads"] // self.tp)
        keys = {"num_kv_heads": heads, "head_size": c["k_dim"], "dtype": self.dtype, "use_mla": kind == "latent",
                "block_size": self.config.cache_config.block_size, "sliding_window": c.get("window"),
                "attention_chunk_size": c.get("window"), "cache_dtype_str": self.kv_type}
        attention = Bag(num_kv_heads=heads, head_size=c["k_dim"], head_size_v=c["v_dim"], kv_cache_torch_dtype=self.dtype,
                        kv_cache_dtype=self.kv_type, sliding_window=c.get("window") if kind == "sliding" else None,
                        attn_type="decoder", attn_backend=self.backend, attention_chunk_size=c.get("window"), indexer=None,
                        topk_buffer_width=None, non_causal_multi_token_decode=False,
                        head_dim=c["k_dim"], _uses_flat_kv_cache=lambda: self.backend.sparse and not self.kv_type.endswith("_ds_mla"),
                        cache_config=self.config.cache_config)
        decoder = Bag(DECODER="decoder", ENCODER_ONLY="encoder_only", ENCODER="encoder")
        dtype_of = lambda text, model: self.dtype
        where, cls = {"full": (ATTENTION, "Attention"), "sliding": (ATTENTION, "Attention"), "latent": (MLA, "MLAAttention"),
                      "chunked": (CHUNKED, "ChunkedLocalAttention"), "cross": (CROSS, "CrossAttention"),
                      "index": (DEEPSEEK, "DeepseekV32IndexerCache")}[kind]
        if kind == "index":
            attention.dtype = release.torch.uint8
            keys.update(dtype=release.torch.uint8, cache_dtype_str=None)
        make = release.lift_method(where, cls, "get_kv_cache_spec", AttentionType=decoder, kv_cache_dtype_str_to_dtype=dtype_of)
        if make and make.__code__.co_argcount == 2:
            spec = make(attention, self.config)
        else:  # 0.10.0 to 0.11.0: gpu_model_runner.py get_kv_cache_spec
            names = {"full": "FullAttentionSpec", "sliding": "SlidingWindowSpec", "chunked": "ChunkedLocalAttentionSpec",
                     "cross": "CrossAttentionSpec", "latent": "MLAAttentionSpec", "index": "MLAAttentionSpec"}
            name = names[kind] if hasattr(interface, names[kind]) else "FullAttentionSpec"
            if name in ("FullAttentionSpec", "MLAAttentionSpec"):
                keys.update(sliding_window=None, attention_chunk_size=None)
            spec = self.build(getattr(interface, name), keys)
        if release.version >= (0, 28, 0) and kind != "index":  # the model runner asks the backend
            spec = self.backend.customize_spec(spec)
        return spec

    @staticmethod
    def build(cls, keys):
        fields = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in keys.items() if name in fields})

    def stages(self):
        """The decoder layers of each pipeline stage."""
        layers, pp = 1 + max(c["layer"] for c in self.caches), self.deployment.get("pp", 1)
        envs = Bag(VLLM_PP_LAYER_PARTITION=None)
        split = self.release.finder.lift("vllm.distributed.utils", "get_pp_indices", names={"envs": envs, "logger": Bag(
            info=lambda *args: None)})
        return [range(*split(layers, rank, pp)) for rank in range(pp)]

    # --- the planner --------------------------------------------------------------------------------------------------
    def run(self):
        release, config = self.release, self.config
        lines = release.finder.lines
        lines.texts.clear()
        lines.once.clear()
        result = {}
        try:
            self.plan(result)
        except (ValueError, AssertionError, NotImplementedError) as error:
            result.update(error=str(error), error_type=type(error).__name__)
        if self.deployment.get("auto_fit"):
            result["auto_fit"] = config.model_config.max_model_len
        result["lines"] = list(lines.texts)
        return result

    def plan_v0(self, result):
        """The first engine of 0.10.0 to 0.10.2, for a model that only it runs: worker.py, cache_engine.py, executor_base.py."""
        release, config, d = self.release, self.config, self.deployment
        model, kinds = config.model_config, Bag(attention=Bag(value="attention"))
        model.is_hybrid, model.has_noops, model.is_attention_free = True, False, False
        model.hf_config = model.hf_text_config = Bag(layers_block_type=self.facts["layers_block_type"])
        model.get_layers_start_end_indices = lambda parallel: (0, len(self.facts["layers_block_type"]))
        where = ("vllm.config", "vllm.config.model")
        count = release.lift_method(where, "ModelConfig", "get_num_layers_by_block_type", LayerBlockType=kinds)
        model.get_num_layers_by_block_type = lambda parallel, kind: count(model, parallel, kind)
        size = release.lift_method(("vllm.worker.cache_engine",), "CacheEngine", "get_cache_block_size", LayerBlockType=kinds)
        block_bytes = size(config.cache_config, model, config.parallel_config)
        blocks = d["available_bytes"] // block_bytes
        check = release.finder.lift("vllm.worker.worker", "raise_if_cache_size_invalid")
        engine = Bag(cache_config=config.cache_config, model_config=model, collective_rpc=lambda *args, **keys: None)
        show = release.lift_method(("vllm.executor.executor_base",), "ExecutorBase", "initialize_cache",
                                   logger=release.finder.lines.logger(),
                                   vllm=Bag(platforms=Bag(current_platform=Bag(device_name="cuda"))))
        show(engine, blocks, 4 * GIB // block_bytes)  # --swap-space is 4 GiB
        check(blocks, config.cache_config.block_size, False, model.max_model_len, 1)
        result.update(num_blocks=blocks, allocated_bytes=[blocks * block_bytes], block_bytes=block_bytes,
                      concurrency=blocks * config.cache_config.block_size / model.max_model_len)

    def plan(self, result):
        release, config = self.release, self.config
        if self.facts.get("v0"):
            self.plan_v0(result)
            return
        if any(c["kind"] == "state" for c in self.caches):
            self.align()
            result["attention_block_size"] = config.cache_config.block_size
            result["mamba_cache_mode"] = config.cache_config.mamba_cache_mode
            shapes, dtypes = self.state_shapes(next(c for c in self.caches if c["kind"] == "state"))
            result["states"] = [[list(shape), repr(dtype).split(".")[1]] for shape, dtype in zip(shapes, dtypes)]
            config.cache_config.mamba_block_size = config.cache_config.mamba_block_size or config.model_config.max_model_len
        order = self.caches
        if release.version < (0, 11, 1):  # the model runner took attention layers first, then states
            order = sorted(order, key=lambda c: c["kind"] == "state")
        stages = self.stages()
        named = [{f"{c['layer']}.{c['kind']}": self.spec(c) for c in order if c["layer"] in stage} for stage in stages]
        memory = [self.deployment["available_bytes"]] * len(stages)
        resolve = release.finder.lift("vllm.v1.attention.backends.utils", "resolve_kv_cache_layout", names={
            "envs": Bag(VLLM_KV_CACHE_LAYOUT=None), "get_kv_connector_cache_layout": lambda config: None,
            "logger": Bag(info_once=lambda *args: None),
            "_layout_from_name": lambda name: importlib.import_module("vllm.v1.kv_cache_layout").KVCacheLayout[name]})
        if resolve:
            preference = release.finder.lift("vllm.v1.attention.backends.utils", "_DEFAULT_LAYOUT_PREFERENCE")
            layouts = ["BLHNC", "BLNHC"] if self.facts.get("ds_v4") else [layout.name for layout in preference]
            resolve(config, [layouts] * len(stages),
                    [spec for specs in named for spec in specs.values()])
        if not hasattr(release.planner, "get_kv_cache_configs"):  # 0.10: v1/engine/core.py _initialize_kv_caches
            configs = [release.planner.get_kv_cache_config(config, specs, bytes_) for specs, bytes_ in zip(named, memory)]
            release.planner.unify_kv_cache_configs(configs)
        elif hasattr(release.planner, "get_global_kv_cache_groups"):
            groups = release.planner.get_global_kv_cache_groups(config, named)
            configs = release.planner.get_kv_cache_configs(config, named, memory, groups)
        else:
            configs = release.planner.get_kv_cache_configs(config, named, memory)
        self.describe(result, configs)
        if hasattr(release.utils, "update_kv_cache_capacity"):
            release.utils.update_kv_cache_capacity(config, release.utils.generate_scheduler_kv_cache_config(configs))

    def describe(self, result, configs):
        config, first = self.config, configs[0]
        groups = []
        for i, group in enumerate(first.kv_cache_groups):
            names = [name for worker in configs for name in worker.kv_cache_groups[i].layer_names]
            spec = group.kv_cache_spec
            blocks = -(-spec.max_memory_usage_bytes(config) // spec.page_size_bytes)
            members = getattr(spec, "kv_cache_specs", None)
            groups.append({"caches": ranges(names), "kind": names[0].split(".")[1] if not members else "mixed",
                           "block_size": spec.block_size, "page_bytes": spec.page_size_bytes, "blocks_per_request": blocks})
        sizes = [allocated(worker.kv_cache_tensors) for worker in configs]
        concurrency = self.release.utils.get_max_concurrency_for_kv_cache_config(config, first) if first.kv_cache_groups else None
        result.update(groups=groups, num_blocks=first.num_blocks, allocated_bytes=sizes, concurrency=concurrency)


def allocated(tensors):
    """Bytes of one rank: the sum of its tensors, or the one buffer that all are views of."""
    tensors = list(tensors.values()) if isinstance(tensors, dict) else tensors
    if any(getattr(t, "block_stride", None) for t in tensors):
        return max(t.size for t in tensors)
    return sum(t.size for t in tensors)


def ranges(names):
    """`0-4,6,8-20:4`: the decoder layers in `names`, as runs with a step."""
    layers = sorted({int(name.split(".")[0]) for name in names})
    text, start, step = [], 0, 0
    while start < len(layers):
        stop = start + 1
        step = layers[stop] - layers[start] if stop < len(layers) else 1
        while stop < len(layers) and layers[stop] - layers[stop - 1] == step:
            stop += 1
        if stop - start < 3 and step != 1:
            stop = start + 1
        text.append(str(layers[start]) if stop - start == 1 else f"{layers[start]}-{layers[stop - 1]}" + (
            f":{step}" if step != 1 else ""))
        start = stop
    return ",".join(text)


def layers_of(caches):
    """The caches with equal ones joined: one object for each kind, and the decoder layers that have it."""
    kinds = {}
    for c in caches:
        kinds.setdefault(json.dumps({k: v for k, v in c.items() if k != "layer"}), []).append(f"{c['layer']}.")
    return [{**json.loads(text), "layers": ranges(names)} for text, names in kinds.items()]


def tokens_of(lines):
    for line in lines:
        if found := re.search(r"KV cache size: ([\d,]+) tokens", line):
            return int(found[1].replace(",", ""))
    return None


def main():
    root, version, models = sys.argv[1:4]
    release = Release(root, version)
    for line in sys.stdin:
        case = json.loads(line)
        run = Case(release, case, models)
        result = run.run()
        result["tokens"] = tokens_of(result["lines"])
        line = {"version": version, **case, "layers": layers_of(run.caches), "result": result}
        print(json.dumps(line, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
