"""The settings of a Spark session that decide which rows a query has.

Rule: they belong to the epoch. A rebuild takes those of the caller's session and records them; an
incremental run sets the recorded ones in its own session, whatever the caller's are by then, and
its record warns of the difference. Both lists are closed: what is not here decides speed, names
what Spark refuses, or is set for every run (`own_session`).

Settings by which Spark reads a text (`PARSING`, `STRUCTURE`) can't be recorded so: our reading is
by Spark's defaults. Where one of them reads something in a text otherwise, the run is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltajoin.errors import DeltaJoinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL = "spark.sql."
SETTINGS = tuple(
    _SQL + name
    for name in (
        "ansi.enabled",  # errors or NULLs; types of arithmetic
        "ansi.relationPrecedence",  # comma before JOIN
        "session.timeZone",  # timestamps to dates and texts
        "timestampType",  # what TIMESTAMP means
        "decimalOperations.allowPrecisionLoss",  # scale of products and quotients
        "mapKeyDedupPolicy",  # which of two equal keys
        "groupByOrdinal",  # GROUP BY 1
        "orderByOrdinal",  # ORDER BY 1
        "groupByAliases",  # GROUP BY an output column
        "function.concatBinaryAsString",  # type of concat
        "function.eltOutputAsString",  # type of elt
        "icu.caseMappings.enabled",  # upper, lower, initcap
        "json.enableExactStringParsing",  # from_json
        "json.enablePartialResults",  # from_json
        "jsonGenerator.ignoreNullFields",  # to_json
        "jsonGenerator.writeNullIfWithDefaultValue",  # to_json
        "variant.allowDuplicateKeys",  # parse_json
        "chunkBase64String.enabled",  # line breaks in base64
        "readSideCharPadding",  # CHAR read from files
        "parquet.binaryAsString",  # types of columns without annotation
        "parquet.int96AsTimestamp",  # the same
        "parquet.int96TimestampConversion",  # the zone of what Impala wrote
        "parquet.datetimeRebaseModeInRead",  # dates before 1582
        "parquet.int96RebaseModeInRead",  # the same
        "legacy.sizeOfNull",  # size(NULL): -1 or NULL
        "legacy.timeParserPolicy",  # patterns of dates
        "legacy.castComplexTypesToString.enabled",  # braces or brackets
        "legacy.charVarcharAsString",  # no padding, no check of length
        "legacy.noCharPaddingInPredicate",  # CHAR = string
        "charAsVarchar",  # no padding
        "preserveCharVarcharTypeInfo",  # CHAR as a type
        "legacy.typeCoercion.datetimeToString.enabled",  # date = string
        "legacy.truncateForEmptyRegexSplit",  # split by ''
        "legacy.bangEqualsNot",  # what ! means
        "legacy.followThreeValuedLogicInArrayExists",  # exists() over NULLs
        "legacy.literal.pickMinimumPrecision",  # type of decimal literals
        "legacy.exponentLiteralAsDecimal.enabled",  # type of 1E2
        "legacy.decimal.retainFractionDigitsOnTruncate",  # scale of wide decimals
        "legacy.allowNegativeScaleOfDecimal",  # scale of decimals
        "legacy.interval.enabled",  # calendar intervals
        "legacy.statisticalAggregate",  # variance of one row: NaN or NULL
        "legacy.integerGroupingId",  # type of grouping_id
        "legacy.groupingIdWithAppendedUserGroupBy",  # its value
        "legacy.setopsPrecedence.enabled",  # INTERSECT before UNION
        "legacy.ctePrecedencePolicy",  # names of nested CTEs
        "legacy.inSubqueryNullability",  # NULLs of IN
        "legacy.nullInEmptyListBehavior",  # NULL IN ()
        "legacy.scalarSubqueryCountBugBehavior",  # count of no rows
        "legacy.duplicateBetweenInput",  # BETWEEN over what changes
        "legacy.json.allowEmptyString.enabled",  # from_json
        "legacy.lpadRpadAlwaysReturnString",  # lpad of binary
        "legacy.negativeIndexInArrayInsert",  # array_insert from the end
        "legacy.percentileDiscCalculation",  # percentile_disc
        "legacy.histogramNumericPropagateInputType",  # histogram_numeric
        "legacy.disableMapKeyNormalization",  # -0.0 as a key
        "legacy.codingErrorAction",  # encode, decode
        "legacy.javaCharsets",  # the same
        "legacy.parser.havingWithoutGroupByAsWhere",  # HAVING without GROUP BY
        "legacy.createEmptyCollectionUsingStringType",  # type of array()
    )
)
#: Setting -> Spark's default.
PARSING = {
    _SQL + "ansi.doubleQuotedIdentifiers": "false",
    _SQL + "parser.escapedStringLiterals": "false",
    _SQL + "legacy.consecutiveStringLiterals.enabled": "false",
    _SQL + "parser.quotedRegexColumnNames": "false",
}

#: The same of settings by which the parts of a text belong together, or by which a subquery has a
#: value. They are recorded too, for a text that is run as it was written.
STRUCTURE = {
    _SQL + "groupByOrdinal": "true",
    _SQL + "ansi.relationPrecedence": "false",
    _SQL + "legacy.setopsPrecedence.enabled": "false",
    _SQL + "legacy.ctePrecedencePolicy": "CORRECTED",
    _SQL + "legacy.parser.havingWithoutGroupByAsWhere": "false",
    _SQL + "legacy.scalarSubqueryCountBugBehavior": "false",
}


def read_settings(spark: SparkSession) -> dict[str, str]:
    """The settings that the rows depend on, as a session has them; those that Spark knows."""
    values = ((key, value_of(spark, key)) for key in SETTINGS)
    return {key: value for key, value in values if value is not None}


def value_of(spark: SparkSession, key: str) -> str | None:
    """A setting of a session; None where it has no value, or this Spark knows no such setting."""
    try:
        value = spark.conf.get(key)
    except Exception:
        return None
    return None if value in (None, "<undefined>") else str(value)


def drift(caller: SparkSession, recorded: dict[str, str] | None) -> list[str]:
    """A warning for each setting that the caller's session has otherwise than the epochs."""
    values = (
        (key, value, value_of(caller, key)) for key, value in sorted((recorded or {}).items())
    )
    return [
        f"session differs: {key} {then} -> {now}; {then} holds until the target is rebuilt"
        for key, then, now in values
        if now is not None and now != then
    ]


def check_reading(caller: SparkSession, syntax: dict[str, Any]) -> None:
    """Refuse a text that the caller's session reads otherwise than we do.

    Args:
        syntax: setting of `PARSING` or `STRUCTURE` -> what the text has that depends on it.

    Raises:
        DeltaJoinError: SESSION_SYNTAX.
    """
    defaults = PARSING | STRUCTURE
    for key, what in sorted(syntax.items()):
        if value_of(caller, key) not in (None, defaults[key]):
            raise DeltaJoinError(
                "SESSION_SYNTAX",
                f"the query has {what}, which the session reads in another way: {key} is not "
                f"{defaults[key]}",
                where="the Spark session",
                remedy=f"Set it to {defaults[key]}, or write the query without.",
            )
