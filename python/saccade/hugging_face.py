"""Formulas in models of the transformers package.

    saccade.register_with_transformers()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="saccade:prior")

Every self-attention layer gets a `saccade` submodule, which owns what the formula learns, so that optimisers, save_pretrained and
from_pretrained know it. transformers calls an attention function with query, key, value and a mask; the positions, and the layer's input
for formulas that are computed from it, are noted by a hook before each layer runs. What is remembered of earlier inputs lives in
transformers' own cache, as further layers of it, so that beams, crops and resets apply to it too.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .formulas import Formula, FormulaLike, formula as to_formula, is_text, mechanisms, parse
from .nn import Attention

PREFIX = "saccade:"
Module = Any  # of a model: which attributes it has is known only by looking
_PATCHED = "_saccade_original"


@dataclass
class Noted:
    """What the hook saw of the call that is about to run."""

    offset: int = 0
    layer_input: Tensor | None = None  # of all tokens so far


class LayerAttention(Attention):
    """The mechanism of one layer of a model."""

    noted: Noted | None = None
    given: dict[str, Tensor] | None = None


# --- which modules, and what to put there


def _is_self_attention(module: Module) -> bool:
    """Those that call transformers' attention interface, by what they must have to do so; attention to another sequence is left alone."""
    name = type(module).__name__
    has_all = all(hasattr(module, attribute) for attribute in ("config", "scaling", "layer_idx"))
    return has_all and "Attention" in name and "Cross" not in name and not getattr(module, "is_cross_attention", False)


def self_attention_modules(model: Module) -> list[Module]:
    """The layers of a model whose mechanism can be a formula."""
    return [module for module in model.modules() if _is_self_attention(module)]


def _make_layer(module: Module, formula: Formula) -> LayerAttention:
    config: Any = module.config
    heads = config.num_attention_heads
    width = getattr(module, "head_dim", None) or getattr(module, "attention_head_size", None) or config.hidden_size // heads
    if not getattr(module, "is_causal", True):
        formula = formula.without_causal()  # an encoder: nothing is still to come
    return LayerAttention(formula, heads, kv_heads=getattr(config, "num_key_value_heads", None) or heads, head_dim=width,
                          model_dim=config.hidden_size)


def _install(model: Module, formula: Formula) -> None:
    name = type(model).__name__
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise ValueError(f"attention: {name} is an encoder-decoder, whose attention to the encoder cannot be told from the rest; expected an "
                         "encoder or a decoder")
    modules = self_attention_modules(model)
    if not modules:
        raise ValueError(f"attention: {name} has no self-attention layer that goes through transformers' attention interface")
    for module in modules:
        if isinstance(getattr(module, "saccade", None), LayerAttention):
            if module.saccade.formula in (formula, formula.without_causal()):
                continue
            _uninstall_one(module)
        layer = _make_layer(module, formula)
        reference = next(module.parameters())
        module.saccade = layer.to(device=reference.device, dtype=reference.dtype if reference.is_floating_point() else None)
        module._saccade_hook = module.register_forward_pre_hook(_note_call, with_kwargs=True)


def _uninstall_one(module: Module) -> None:
    del module.saccade
    module._saccade_hook.remove()
    del module._saccade_hook


def _formula_of(implementation: str) -> Formula:
    return to_formula(implementation.removeprefix(PREFIX))


# --- a call


def _find_cache(args: tuple, kwargs: dict[str, Any]) -> Any:
    from transformers.cache_utils import Cache, EncoderDecoderCache

    cache = next((value for value in (*args, *kwargs.values()) if isinstance(value, Cache)), None)
    return cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache


def _note_call(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
    layer: LayerAttention = module.saccade
    cache = _find_cache(args, kwargs)
    noted = Noted()
    if cache is not None:
        noted.offset = int(cache.get_seq_length(module.layer_idx))
    if layer.formula.needs_layer_input:
        noted.layer_input = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        if cache is not None:
            noted.layer_input = _remember(cache, module, noted.layer_input)
    layer.noted = noted


def _remember(cache: Any, module: Module, x: Tensor) -> Tensor:
    """The inputs of all tokens so far, kept in further layers of the cache."""
    from transformers.cache_utils import DynamicLayer

    place = module.config.num_hidden_layers + module.layer_idx
    while len(cache.layers) <= place:
        if any(getattr(layer, "is_compileable", False) for layer in cache.layers):
            raise ValueError(f"attention: the formula '{module.saccade.formula.name}' remembers the layer's input, which a static cache "
                             "cannot hold; use a dynamic one")
        cache.layers.append(DynamicLayer())
    row = x.unsqueeze(1)
    return cache.layers[place].update(row, row[..., :0])[0].squeeze(1)


def _attend(module: Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, dropout: float = 0.0,
            scaling: float | None = None, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    layer = getattr(module, "saccade", None)
    if not isinstance(layer, LayerAttention):
        raise ValueError(f"attention: {type(module).__name__} has no formula; cross-attention cannot have one, and a model that was built "
                         "before saccade.register_with_transformers() gets one by saccade.swap(model, formula)")
    if kwargs.get("softcap") is not None:
        raise ValueError(f"attention: the model caps its scores at {kwargs['softcap']}, which the formula replaces; write cap * tanh(s / cap) "
                         "into it, and set config.attn_logit_softcapping = None")
    noted, layer.noted = layer.noted or Noted(), None
    queries, keys = query.shape[2], key.shape[2]
    first_key = max(0, noted.offset + queries - keys)  # what a sliding cache has dropped
    formula = layer.formula
    if scaling is not None and not formula.has_scale and abs(scaling * query.shape[-1] ** 0.5 - 1) > 1e-9:
        formula = _scaled(formula, float(scaling))
    inputs = _inputs_for(formula, layer.given or {}, first_key, keys)
    call: dict[str, Any] = {"dropout": dropout, "offset": noted.offset, "first_key": first_key,
                            "need_weights": bool(kwargs.get("output_attentions") or getattr(module.config, "output_attentions", False))}
    if attention_mask is not None and attention_mask.dim() == 2:
        call["key_mask"] = attention_mask
        if formula.uses_places and not _has_positions(formula):
            formula = _with_positions(formula)
            inputs["pos"] = (attention_mask.long().cumsum(1) - 1).clamp(min=0) + first_key
    elif attention_mask is not None:
        call["attn_mask"] = attention_mask[..., :keys]
    if noted.layer_input is not None:
        call["x"] = noted.layer_input[:, first_key:]
    result = layer(query, key, value, formula=formula, inputs=inputs, **call)
    output, weights = result if call["need_weights"] else (result, None)
    return output.transpose(1, 2).contiguous(), weights


@functools.lru_cache(maxsize=256)
def _scaled(formula: Formula, scaling: float) -> Formula:
    return parse(f"{formula.resolved}scale = {scaling!r}\n", formula.name)


@functools.lru_cache(maxsize=256)
def _with_positions(formula: Formula) -> Formula:
    # Padding in front of a sequence takes up keys but no positions.
    return parse(f"{formula.resolved}input pos[token]: int\n", formula.name)


def _has_positions(formula: Formula) -> bool:
    return any(table.name == "pos" for table in formula.inputs)


def _inputs_for(formula: Formula, given: dict[str, Tensor], first_key: int, keys: int) -> dict[str, Tensor]:
    """Inputs that run along the tokens, cut to those whose keys are there."""
    result = {}
    for table in formula.inputs:
        if table.name not in given:
            continue
        tensor = given[table.name]
        spare = tensor.dim() - len(table.dimensions)  # a batch in front that the declaration does not mention
        for place, dimension in enumerate(table.dimensions):
            if dimension in ("token", "key"):
                tensor = tensor.narrow(place + spare, first_key, keys)
        result[table.name] = tensor
    return result


def _mask(batch_size: int, q_length: int, kv_length: int, q_offset: Any = 0, kv_offset: int = 0, mask_function: Any = None,
          attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
    """Of transformers' masks a formula needs the padding alone: it has its own idea of who sees whom. Windows, packed sequences and the
    like come as a mask of pairs, and hold besides the formula."""
    from transformers import masking_utils

    if mask_function not in (None, masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function):
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return masking_utils.sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **kwargs)
    if attention_mask is None:
        return None
    padding: Any = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    padding = padding[:, kv_offset:kv_offset + kv_length].bool()
    return padding if torch.compiler.is_compiling() or not bool(padding.all()) else None


# --- making transformers know it


def _know(implementation: str) -> None:
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(implementation, _attend)
    AttentionMaskInterface.register(implementation, _mask)


def _wrap(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    if hasattr(original, _PATCHED):
        return
    wrapped = functools.wraps(original)(make(original))
    setattr(wrapped, _PATCHED, original)
    setattr(owner, name, wrapped)


def register_with_transformers() -> None:
    """Makes attn_implementation="saccade:<mechanism or file>" known to transformers 5. Calling it again does nothing.

    Besides registering attention and mask functions, it wraps four methods of PreTrainedModel, so that the layers' parameters exist before
    weights are loaded, start at the formula's values, and follow set_attn_implementation."""
    import transformers
    from transformers.modeling_utils import PreTrainedModel

    if int(transformers.__version__.split(".")[0]) < 5:
        raise ImportError(f"saccade: transformers {transformers.__version__} is too old; expected 5 or later")
    for name in mechanisms():
        _know(PREFIX + name)

    def check(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_correct_attn_implementation(self: Any, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
            if requested_attention is not None and requested_attention.startswith(PREFIX):
                _formula_of(requested_attention)  # a wrong name or file is reported here
                _know(requested_attention)
            return original(self, requested_attention, *args, **kwargs)
        return get_correct_attn_implementation

    def finish(original: Callable[..., Any]) -> Callable[..., Any]:
        def post_init(self: Any) -> None:
            follow(self)
            original(self)
        return post_init

    def start(original: Callable[..., Any]) -> Callable[..., Any]:
        def _initialize_weights(self: Any, module: Module, *args: Any, **kwargs: Any) -> None:
            if isinstance(module, LayerAttention) and not getattr(module, "_is_hf_initialized", False):
                module.reset_parameters(lambda parameter: not getattr(parameter, "_is_hf_initialized", False))
            original(self, module, *args, **kwargs)
        return _initialize_weights

    def change(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_attn_implementation(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            follow(self)
        return set_attn_implementation

    def follow(model: Any) -> None:
        implementation = model.config._attn_implementation
        if isinstance(implementation, str) and implementation.startswith(PREFIX):
            _install(model, _formula_of(implementation))

    _wrap(PreTrainedModel, "get_correct_attn_implementation", check)
    _wrap(PreTrainedModel, "post_init", finish)
    _wrap(PreTrainedModel, "_initialize_weights", start)
    _wrap(PreTrainedModel, "set_attn_implementation", change)


def swap(model: Module, formula: FormulaLike) -> Module:
    """Puts a formula into every self-attention layer of a model of transformers, and gives the model back. What the formula learns starts at
    its start values; optimisers made before do not know it. `restore` undoes it."""
    register_with_transformers()
    chosen = to_formula(formula)
    implementation = PREFIX + (formula if isinstance(formula, str) and not is_text(formula) else chosen.name)
    _install(model, chosen)
    before = getattr(model, "_saccade_before", None) or model.config._attn_implementation
    if isinstance(before, str) and before.startswith(PREFIX):
        before = None  # it came with a formula, of which nothing is left to go back to
    _know(implementation)
    for config in _configs(model):
        config._attn_implementation_internal = implementation
    model._saccade_before = before
    return model


def restore(model: Module) -> Module:
    """Takes the formula out again, with all that it learned, and gives the model back."""
    modules = [module for module in self_attention_modules(model) if isinstance(getattr(module, "saccade", None), LayerAttention)]
    if not modules:
        raise ValueError(f"restore: {type(model).__name__} has no formula")
    for module in modules:
        _uninstall_one(module)
    before = getattr(model, "_saccade_before", None) or "sdpa"
    for config in _configs(model):
        config._attn_implementation_internal = before
    model._saccade_before = None
    return model


def _configs(model: Module) -> list[Any]:
    configs = {id(module.config): module.config for module in (model, *self_attention_modules(model))}
    return list(configs.values())


@contextlib.contextmanager
def given(model: Module, **inputs: Tensor) -> Iterator[Module]:
    """Gives a model's formula its inputs, for the calls inside the block.

        with saccade.hugging_face.given(model, doc=documents):
            model(tokens)

    Inputs by token cover at least all tokens that there will be; of longer ones the beginning is used."""
    layers = [module.saccade for module in self_attention_modules(model) if isinstance(getattr(module, "saccade", None), LayerAttention)]
    if not layers:
        raise ValueError(f"given: {type(model).__name__} has no formula")
    for layer in layers:
        layer.given = inputs
    try:
        yield model
    finally:
        for layer in layers:
            layer.given = None
