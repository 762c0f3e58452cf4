"""The settings of a Spark session that decide what expressions mean."""

from __future__ import annotations

# What expressions mean depends on these. They are computed as with the first value, so nothing else may be set.
MEANINGS = {
    "spark.sql.session.timeZone": ("UTC", "Etc/UTC", "Z", "GMT", "+00:00"),
    "spark.sql.ansi.enabled": ("true",),
    "spark.sql.caseSensitive": ("false",),
    # Whether a comma in FROM binds as tightly as JOIN.
    "spark.sql.ansi.relationPrecedence": ("false",),
    # What TIMESTAMP, "x", 'a\\b', 'it''s', 1e3 and 1.5 are.
    "spark.sql.timestampType": ("TIMESTAMP_LTZ",),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("false",),
    "spark.sql.parser.escapedStringLiterals": ("false",),
    "spark.sql.parser.quotedRegexColumnNames": ("false",),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": ("false",),
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": ("false",),
    "spark.sql.legacy.literal.pickMinimumPrecision": ("true",),
    # Types of decimals, lengths of time, letters, and formats.
    "spark.sql.decimalOperations.allowPrecisionLoss": ("true",),
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": ("false",),
    "spark.sql.legacy.allowNegativeScaleOfDecimal": ("false",),
    "spark.sql.legacy.interval.enabled": ("false",),
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED",),
    "spark.sql.icu.caseMappings.enabled": ("true",),
}

# Languages of a Java process in which upper and lower case are other letters: Turkish i and İ, Greek without accents.
LETTERS_OF_THEIR_OWN = ("az", "el", "hy", "lt", "tr")
