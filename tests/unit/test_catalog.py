"""Source tables as their logs tell them: identity, schema, size, and the three refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltajoin.catalog import Column, Consumed, load_table, normalise, read_changes
from deltajoin.catalog.schema import columns_of, identities_of
from deltajoin.errors import DeltaJoinError

FEED = {"delta.enableChangeDataFeed": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"Id": pa.array(ids, pa.int64()), "s": pa.array([str(i) for i in ids])})


def test_a_table_is_described_by_its_newest_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, rows(1, 2, 3), configuration=FEED)
    write_deltalake(path, rows(4), mode="append")

    table = load_table("w", path + "/")

    assert (table.name, table.location, table.version) == ("w", path, 1)
    assert table.columns == (Column("Id", "bigint", True), Column("s", "string", True))
    assert (table.rows, table.files) == (4, 2)
    assert table.bytes == sum(f.stat().st_size for f in Path(path).glob("*.parquet"))
    assert table.change_feed
    assert table.properties == (("delta.enableChangeDataFeed", "true"),)
    assert len(table.table_id) == 36
    assert table == load_table("w", Path(path).as_uri())


def test_rows_are_unknown_as_soon_as_one_file_has_no_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, rows(1, 2, 3))
    log = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(json.dumps(action) for action in actions))

    table = load_table("t", str(path))

    assert table.rows is None
    assert table.files == 1


def test_an_empty_table_has_no_rows_and_no_feed(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows())
    table = load_table("t", str(tmp_path / "t"))
    assert (table.rows, table.bytes, table.files, table.change_feed) == (0, 0, 0, False)


def test_columns_follow_names_types_and_order(tmp_path: Path) -> None:
    found = set()
    for number, names in enumerate((("a", "b"), ("b", "a"), ("A", "b"))):
        write_deltalake(tmp_path / str(number), pa.table(dict.fromkeys(names, [1])))
        found.add(load_table("t", str(tmp_path / str(number))).columns)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("delta", "ddl"),
    [
        ("long", "bigint"),
        ("integer", "int"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("decimal(10, 2)", "decimal(10,2)"),
        ("decimal(38,18)", "decimal(38,18)"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("variant", "variant"),
        ({"type": "array", "elementType": "byte", "containsNull": True}, "array<tinyint>"),
        (
            {
                "type": "struct",
                "fields": [
                    {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
                    {
                        "name": "b`c d",
                        "type": {"type": "map", "keyType": "string", "valueType": "long"},
                    },
                ],
            },
            "struct<a:int,`b``c d`:map<string,bigint>>",
        ),
    ],
)
def test_types_are_spelled_as_spark_ddl(delta: object, ddl: str) -> None:
    field = {"name": "a", "type": delta, "nullable": True, "metadata": {}}
    assert columns_of(json.dumps({"fields": [field]})) == (Column("a", ddl, True),)


def test_columns_keep_their_spelling_order_and_nullability() -> None:
    fields = [
        {"name": "Zeta Id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "a", "type": "string", "nullable": True, "metadata": {}},
    ]
    assert columns_of(json.dumps({"type": "struct", "fields": fields})) == (
        Column("Zeta Id", "bigint", False),
        Column("a", "string", True),
    )


def test_collations_are_part_of_the_type(tmp_path: Path) -> None:
    """They stand in the metadata of the field, of the nearest one for parts of arrays and maps."""
    inner = field("m", "string", {"m": "spark.UTF8_LCASE"})
    array = {"type": "array", "elementType": "string", "containsNull": True}
    fields = [
        field("n", "string", {"n": "icu.UNICODE_CI"}),
        field("plain", "string"),
        field("l", array, {"l.element": "spark.UTF8_LCASE"}),
        field("s", {"type": "struct", "fields": [inner, field("o", "string")]}),
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    assert [column.type for column in columns_of(text)] == [
        "string collate UNICODE_CI",
        "string",
        "array<string collate UTF8_LCASE>",
        "struct<m:string collate UTF8_LCASE,o:string>",
    ]
    plain = json.dumps({"type": "struct", "fields": [field("n", "string")]})
    assert identities_of(text)["n"] != identities_of(plain)["n"]
    write_deltalake(tmp_path, pa.table({"n": ["a"], "plain": ["a"]}))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = {"type": "struct", "fields": fields[:2]}
            action["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("\n".join(map(json.dumps, actions)), "utf-8")
    (tmp_path / "_delta_log" / f".{0:020}.json.crc").unlink(missing_ok=True)
    found = load_table("t", str(tmp_path))
    assert [column.type for column in found.columns] == ["string collate UNICODE_CI", "string"]


def field(name: str, kind: object, collations: dict[str, str] | None = None) -> dict[str, object]:
    metadata = {"__COLLATIONS": collations} if collations else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


@pytest.mark.parametrize(
    "kind", ["absent", "empty", "files", "file", "empty log", "corrupt", "new"]
)
def test_what_cannot_be_read_is_refused_with_place_and_remedy(tmp_path: Path, kind: str) -> None:
    path, log = tmp_path / "t", tmp_path / "t" / "_delta_log"
    if kind == "empty":
        path.mkdir()
    elif kind == "files":
        path.mkdir()
        (path / "part.parquet").write_text("x")
    elif kind == "file":
        path.write_text("x")
    elif kind == "empty log":
        log.mkdir(parents=True)
    elif kind in ("corrupt", "new"):
        write_deltalake(path, rows(1))
        first = log / f"{0:020d}.json"
        text = first.read_text()
        protocol = '{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["unheardOf"],'
        protocol += '"writerFeatures":["unheardOf"]}'
        lines = [
            f'{{"protocol":{protocol}}}' if '"protocol"' in line else line
            for line in text.splitlines()
        ]
        first.write_text("{not json" if kind == "corrupt" else "\n".join(lines))
    expected = {"absent": "SOURCE_MISSING", "empty": "SOURCE_MISSING"} | dict.fromkeys(
        ("files", "file", "empty log"), "SOURCE_NOT_DELTA"
    )

    with pytest.raises(DeltaJoinError) as refusal:
        load_table("weather", str(path))

    assert refusal.value.code == expected.get(kind, "SOURCE_UNREADABLE")
    assert refusal.value.where == f"weather: {path}"
    assert refusal.value.remedy


def test_locations_have_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = os.path.join(os.getcwd(), "a b")
    for text in ("a b", "./a b/", expected + "//", "file://" + expected.replace(" ", "%20")):
        assert normalise(text) == expected
    assert normalise("file:/x/y/") == "/x/y"
    assert normalise("s3a://bucket/a%20b/") == "s3a://bucket/a%20b"


def test_the_changes_of_six_sources_over_many_commits(tmp_path: Path) -> None:
    for name in "abcdef":
        path = tmp_path / name
        write_deltalake(path, rows(*range(100)), configuration=FEED)
        for start in range(20):
            write_deltalake(path, rows(1000 + start), mode="append")
    for name in "abcdef":
        table = load_table(name, str(tmp_path / name))
        consumed = Consumed(table.table_id, 0, table.columns)
        assert read_changes(table, consumed, ["Id"]).rows == 20
