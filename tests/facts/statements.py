"""What a test states about a config: one function a statement, each of which gives a check(h, config, why)."""
import formulas
from harness import Failed, cache_of, expect, expect_need, expect_pattern, letters

BF16 = {"torch_dtype": "bfloat16"}
F, S = "full_attention", "sliding_attention"


def of(model_type, **keys):
    return dict({"model_type": model_type}, **keys)


def types(text):
    """layer_types, one letter a layer."""
    return [{"F": F, "S": S, "L": "linear_attention"}[x] for x in text]


def pattern(expected, also=()):
    """The layers' letters; `also` are other patterns that the facts leave open."""
    def check(h, config, why):
        shown = h.show(config)
        if letters(shown["pattern"]) not in [letters(x) for x in also]:
            expect_pattern(shown, expected, why)
    return check


def cache(i, **fields):
    """Fields of the first cache of layer i."""
    def check(h, config, why):
        got = cache_of(h.show(config), i)
        for key, value in fields.items():
            expect("layer %d %s" % (i, key), value, got.get(key), why)
    return check


def model(**fields):
    def check(h, config, why):
        got = h.show(config)["model"]
        for key, value in fields.items():
            expect("model." + key, value, got.get(key), why)
    return check


def need(layers, *contexts):
    def check(h, config, why):
        for context in contexts or (1, 4096, 131072):
            try:
                expect_need(h, config, layers, context)
            except Failed as e:
                raise Failed("%s\n(%s)" % (e, why))
    return check


def bytes_at(context, *allowed):
    """need in bytes: any of the allowed values, where the facts leave the dtype of a state open."""
    def check(h, config, why):
        got = h.plan(config, context)["bytes"]["need"]
        if got not in allowed:
            raise Failed("need at %d: expected %s, got %d\n(%s)" % (context, " or ".join(map(str, allowed)), got, why))
    return check


def state_bytes(*allowed):
    """The states of all layers together: any of the allowed values."""
    def check(h, config, why):
        got = h.plan(config, 1)["bytes"]["state"]
        if got not in allowed:
            raise Failed("state: expected %s bytes, got %d\n(%s)" % (" or ".join(map(str, allowed)), got, why))
    return check


def same_need_as(other, context=4096):
    def check(h, config, why):
        expect("need at %d" % context, h.plan(other, context)["bytes"]["need"], h.plan(config, context)["bytes"]["need"], why)
    return check


def refused(*codes):
    def check(h, config, why):
        code, out, err = h.run(["show", h.write(config), "--format", "json"])
        if code not in codes:
            raise Failed("exit: expected %s, got %d%s\n(%s)" % (
                " or ".join(map(str, codes)), code, ", " + err.splitlines()[0] if err else "", why))
        if not err:
            raise Failed("it is refused without a word on stderr\n(%s)" % why)
    return check


def not_windowed(h, config, why):
    """Full attention, or a refusal: never a window."""
    code, _, _ = h.run(["show", h.write(config), "--format", "json"])
    if code not in (2, 3) and set(letters(h.show(config)["pattern"])) != {"F"}:
        raise Failed("pattern: expected F only, or a refusal, got %s\n(%s)" % (h.show(config)["pattern"], why))


def kinds(i, *expected):
    """The kinds of the caches of layer i."""
    def check(h, config, why):
        layer = h.show(config)["layers"][i]
        expect("caches of layer %d" % i, sorted(expected), sorted(x["kind"] for x in layer["caches"]), why)
    return check


def layer_count(n):
    def check(h, config, why):
        expect("layers", n, len(h.show(config)["layers"]), why)
    return check


def tests(h, group, rows):
    for name, why, config, *checks in rows:
        for k, check in enumerate(checks):
            h.case("%s %s%s" % (group, name, "" if len(checks) == 1 else " [%d]" % (k + 1)), check, h, config, why)


def named(*words):
    """A known type with a key that looks as if it decided a cache: it is named in a warning, or refused."""
    def check(h, config, why):
        code, out, err = h.run(["show", h.write(config), "--format", "json"])
        said = err if code == 3 else " ".join(h.show(config)["warnings"]) if not code else ""
        for word in words:
            if word not in said:
                raise Failed("expected a warning, or exit 3, that names %s; exit %d, said: %s\n(%s)" % (word, code, said or "nothing", why))
    return check


def says(*words):
    """`show --why` in words."""
    def check(h, config, why):
        code, out, err = h.run(["show", h.write(config), "--why"])
        if code:
            raise Failed("`show --why` exits %d: %s" % (code, err))
        for word in words:
            if word not in out:
                raise Failed("`show --why` does not say %r\n(%s)" % (word, why))
    return check
