"""Calls of every aggregate that Spark has, over the columns x BIGINT, k INT, y DOUBLE, s STRING, b BOOLEAN, z BINARY,
l ARRAY<INT>, and sketches."""

from __future__ import annotations

import re

# {A} is where a variable goes. Values read of a sketch are compared, since Spark merges partial sketches.
CALLS = {
    "any": ["any({A}b)"],
    "any_value": ["any_value({A}x)"],
    "approx_count_distinct": ["approx_count_distinct({A}x)"],
    "approx_percentile": ["approx_percentile({A}x, 0.5, 100)"],
    "approx_top_k": ["get(approx_top_k({A}k, 10), 0).count"],
    "approx_top_k_accumulate": ["get(approx_top_k_estimate(approx_top_k_accumulate({A}k), 10), 0).count"],
    "array_agg": ["array_agg({A}x)", "array_agg(DISTINCT {A}x)", "array_agg({A}x || CLASSIFIER())"],
    "avg": ["avg({A}x)", "avg(DISTINCT {A}x)", "avg({A}y * 2)"],
    "bit_and": ["bit_and({A}x)"],
    "bit_or": ["bit_or({A}x)"],
    "bit_xor": ["bit_xor({A}x)"],
    "bitmap_and_agg": ["bitmap_count(bitmap_and_agg({A}z))"],
    "bitmap_construct_agg": ["bitmap_count(bitmap_construct_agg({A}k))"],
    "bitmap_or_agg": ["bitmap_count(bitmap_or_agg({A}z))"],
    "bool_and": ["bool_and({A}b)"],
    "bool_or": ["bool_or({A}b)"],
    "collect_list": ["collect_list({A}s)"],
    "collect_set": ["array_sort(collect_set({A}s))"],
    "collect_union": ["array_sort(collect_union({A}l))"],
    "corr": ["corr({A}x, {A}y)"],
    "count": ["count({A}x)", "count(DISTINCT {A}x)", "count(DISTINCT {A}x, {A}s)", "count({A}x, {A}s)", "count(DISTINCT {A}y)"],
    "count_if": ["count_if({A}b)"],
    "count_min_sketch": ["hex(count_min_sketch({A}x, 0.5D, 0.5D, 1))"],
    "covar_pop": ["covar_pop({A}x, {A}y)"],
    "covar_samp": ["covar_samp({A}x, {A}y)"],
    "every": ["every({A}b)"],
    "first_value": ["first_value({A}x)", "first_value({A}x) IGNORE NULLS"],
    "histogram_numeric": ["histogram_numeric({A}x, 50)"],
    "hll_sketch_agg": ["hll_sketch_estimate(hll_sketch_agg({A}x))"],
    "kll_sketch_agg_bigint": ["kll_sketch_get_n_bigint(kll_sketch_agg_bigint({A}x))"],
    "kll_sketch_agg_double": ["kll_sketch_get_n_double(kll_sketch_agg_double({A}y))"],
    "kll_sketch_agg_float": ["kll_sketch_get_n_float(kll_sketch_agg_float(CAST({A}y AS FLOAT)))"],
    "kurtosis": ["kurtosis({A}x)"],
    "last_value": ["last_value({A}x)", "last_value({A}x) IGNORE NULLS"],
    "listagg": ["listagg({A}s, ',')", "listagg({A}s, ',') WITHIN GROUP (ORDER BY {A}s DESC)", "listagg(DISTINCT {A}s) WITHIN GROUP (ORDER BY {A}s)"],
    "max": ["max({A}s)", "max({A}s || CLASSIFIER())"],
    "max_by": ["max_by({A}s, {A}id)"],
    "mean": ["mean({A}x)"],
    "median": ["median({A}x)", "median(DISTINCT {A}x)"],
    "min": ["min({A}y)", "min({A}s || CLASSIFIER())"],
    "min_by": ["min_by({A}s, {A}id)"],
    "mode": ["mode() WITHIN GROUP (ORDER BY {A}x)", "mode() WITHIN GROUP (ORDER BY {A}s DESC)", "mode({A}x, true)"],
    "percentile": ["percentile({A}x, array(0.0, 0.1, 0.25, 0.9, 1.0))", "percentile({A}x, 0.3, {A}k)", "percentile({A}y, 0.77)"],
    "percentile_approx": ["percentile_approx({A}x, array(0.2, 0.9), 100)"],
    "percentile_cont": ["percentile_cont(0.4) WITHIN GROUP (ORDER BY {A}y)", "percentile_cont(0.1) WITHIN GROUP (ORDER BY {A}x DESC)"],
    "percentile_disc": [f"percentile_disc({p}) WITHIN GROUP (ORDER BY {{A}}x{d})" for p in (0.0, 0.3, 0.5, 0.51, 1.0) for d in ("", " DESC")],
    **{name: [f"{name}({{A}}x, {{A}}y)"] for name in "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy".split()},
    "skewness": ["skewness({A}y)"],
    "some": ["some({A}b)"],
    "std": ["std({A}x)"],
    "stddev": ["stddev({A}x)", "stddev(DISTINCT {A}x)"],
    "stddev_pop": ["stddev_pop({A}x)"],
    "stddev_samp": ["stddev_samp({A}x)"],
    "string_agg": ["string_agg({A}s)"],
    "sum": ["sum({A}x)", "sum(DISTINCT {A}x)", "sum(CAST({A}y AS DECIMAL(9, 2)))", "sum({A}x * MATCH_NUMBER())"],
    "theta_sketch_agg": ["theta_sketch_estimate(theta_sketch_agg({A}x))"],
    "try_avg": ["try_avg({A}x)"],
    "try_sum": ["try_sum({A}x)"],
    "tuple_sketch_agg_double": ["tuple_sketch_estimate_double(tuple_sketch_agg_double({A}x, {A}y))"],
    "tuple_sketch_agg_integer": ["tuple_sketch_estimate_integer(tuple_sketch_agg_integer({A}x, {A}k))"],
    "var_pop": ["var_pop({A}x)"],
    "var_samp": ["var_samp({A}x)"],
    "variance": ["variance({A}x)"],
}
# what combines sketches, which are a column of the input
SKETCHES = {
    "approx_top_k_combine": ("approx_top_k_accumulate(k)", "get(approx_top_k_estimate(approx_top_k_combine({}, 100), 10), 0).count"),
    "hll_union_agg": ("hll_sketch_agg(x)", "hll_sketch_estimate(hll_union_agg({}))"),
    "kll_merge_agg_bigint": ("kll_sketch_agg_bigint(x)", "kll_sketch_get_n_bigint(kll_merge_agg_bigint({}))"),
    "kll_merge_agg_double": ("kll_sketch_agg_double(y)", "kll_sketch_get_n_double(kll_merge_agg_double({}))"),
    "kll_merge_agg_float": ("kll_sketch_agg_float(CAST(y AS FLOAT))", "kll_sketch_get_n_float(kll_merge_agg_float({}))"),
    "theta_intersection_agg": ("theta_sketch_agg(x)", "theta_sketch_estimate(theta_intersection_agg({}))"),
    "theta_union_agg": ("theta_sketch_agg(x)", "theta_sketch_estimate(theta_union_agg({}))"),
    **{
        f"tuple_{how}_agg_{kind}": (f"tuple_sketch_agg_{kind}(x, {value})", f"tuple_sketch_estimate_{kind}(tuple_{how}_agg_{kind}({{}}))")
        for how in ("intersection", "union")
        for kind, value in (("double", "y"), ("integer", "k"))
    },
}
CALLS |= {name: [text.format("{A}" + name)] for name, (_, text) in SKETCHES.items()}
# first and last navigate; the others are of GROUP BY and of metric views
NOT_HERE = {"first", "last", "grouping", "grouping_id", "measure"}


def parts(call: str) -> tuple[str, str, str]:
    """The text before the aggregate, the aggregate, and the text after it."""
    name = max((name for name in CALLS if re.search(rf"\b{name}\(", call)), key=len)
    begin = end = re.search(rf"\b{name}\(", call).start()
    depth = -1
    while depth:
        depth = max(depth, 0) + (call[end] == "(") - (call[end] == ")") if call[end] in "()" else depth
        end += 1
    within = re.match(r" WITHIN GROUP \([^()]*\)", call[end:])
    end += within.end() if within else 0
    return call[:begin], call[begin:end], call[end:]
