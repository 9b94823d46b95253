"""Spark's built-in functions by what they mean for incremental maintenance.

The names are those of Spark 4.2's function registry, and of what its grammar takes for a call. A
scalar that is not listed is a user-defined function: nothing proves it deterministic, so a model
that calls one is refused.
`unix_timestamp()` without arguments is the clock; `sql/clock.py` looks at its arguments.
"""

from __future__ import annotations

NON_DETERMINISTIC = frozenset(
    """
    aes_encrypt current_catalog current_database current_path current_schema current_time
    input_file_block_length input_file_block_start input_file_name java_method
    monotonically_increasing_id rand randn random randstr reflect shuffle spark_partition_id
    try_aes_encrypt try_reflect uniform uuid
    """.split()
)

#: The time of the run, the same for all rows: `sql/clock.py` fixes it for an epoch.
CLOCK = frozenset("curdate current_date current_timestamp localtimestamp now".split())
#: Who or what runs, the same for all rows.
RUN = frozenset("current_timezone current_user session_user user version".split())

#: What Spark also takes without parentheses, where no table has a column of that name.
BARE = frozenset("current_date current_timestamp current_user session_user user".split())
BARE_NON_DETERMINISTIC = frozenset(("current_time",))

AGGREGATES = frozenset(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch
    covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value
    listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp
    variance
    """.split()
)

#: Aggregates whose result depends on the order of the rows, which nothing fixes.
ORDER_DEPENDENT = frozenset(
    """
    any_value array_agg collect_list collect_set first first_value last last_value listagg max_by
    min_by mode string_agg
    """.split()
)

WINDOW_ONLY = frozenset(
    "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number".split()
)

GENERATORS = frozenset(
    """
    explode explode_outer inline inline_outer posexplode posexplode_outer session_window stack
    window
    """.split()
)

#: Those of them that make no rows of one row.
TIME_GROUPS = frozenset(("session_window", "window"))

#: Window functions that give all rows which tie in the window's order the same.
EQUAL_FOR_PEERS = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))

#: Aggregates whose result over a window does not depend on the order of the rows in its frame.
ORDER_FREE = frozenset(
    """
    any approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or corr count count_if
    covar_pop covar_samp every kurtosis max mean median min percentile percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop
    var_samp variance
    """.split()
)

SCALARS = frozenset(
    """
    abs acos acosh add_months aes_decrypt aggregate and approx_top_k_estimate array array_append
    array_compact array_contains array_distinct array_except array_insert array_intersect array_join
    array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
    array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64
    between bigint bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number
    bitmap_count boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
    character_length chr coalesce collate collation concat concat_ws contains conv convert_timezone
    cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date date_part
    date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal
    decode degrees div double e element_at elt encode endswith equal_null exists exp expm1 extract
    factorial filter find_in_set flatten float floor forall format_number format_string from_avro
    from_csv from_json from_protobuf from_unixtime from_utc_timestamp from_xml get get_json_object
    getbit greatest hash hex hll_sketch_estimate hll_union hour hypot if ifnull ilike in initcap
    instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
    json_array_length json_object_keys json_tuple kll_sketch_get_n_bigint kll_sketch_get_n_double
    kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
    kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
    kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
    kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float last_day
    lcase least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim
    luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod
    month monthname months_between named_struct nanvl negative next_day not nullif nullifzero nvl
    nvl2 octet_length or overlay parse_json parse_url pi pmod position positive pow power printf
    quarter quote radians raise_error reduce regexp regexp_count regexp_extract regexp_extract_all
    regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint rlike
    round rpad rtrim schema_of_avro schema_of_csv schema_of_json schema_of_variant
    schema_of_variant_agg schema_of_xml sec second sentences sequence sha sha1 sha2 shiftleft
    shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space
    split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith
    str_to_map string struct substr substring substring_index tan tanh theta_difference
    theta_intersection theta_sketch_estimate theta_union time time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
    timediff timestamp timestamp_micros timestamp_millis timestamp_seconds timestampadd
    timestampdiff tinyint to_avro to_binary to_char to_csv to_date to_json to_number to_protobuf
    to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
    to_varchar to_variant_object to_xml transform transform_keys transform_values translate trim
    trunc try_add try_aes_decrypt try_cast try_divide try_element_at try_make_interval
    try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply
    try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number try_to_time
    try_to_timestamp try_url_decode try_validate_utf8 try_variant_get tuple_difference_double
    tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
    tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double
    tuple_intersection_theta_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
    tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double
    tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
    tuple_union_theta_integer typeof ucase unbase64 unhex unix_date unix_micros unix_millis
    unix_seconds unix_timestamp upper url_decode url_encode validate_utf8 variant_get vector_avg
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
    vector_sum weekday weekofyear when width_bucket window_time xpath xpath_boolean xpath_double
    xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year zeroifnull
    zip_with
    """.split()
)

#: All that give the same for the same rows, but for the clock and the run, which one epoch fixes.
DETERMINISTIC = SCALARS | AGGREGATES | WINDOW_ONLY | GENERATORS | CLOCK | RUN | {"range"}
