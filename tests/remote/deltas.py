"""Delta tables with features that only other writers have: their logs are written by hand."""

from __future__ import annotations

import json
import struct
from pathlib import Path

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def rewrite(folder, change):
    """Change every action of the first commit."""
    log = sorted(Path(folder, "_delta_log").glob("*.json"))[0]
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("\n".join(map(json.dumps, actions)))


def delete_by_vector(folder, rows):
    """Delete rows of the only file by a deletion vector, as Spark does."""

    def change(action):
        if "protocol" in action:
            features = ["deletionVectors"]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        if "add" in action:
            data = _vector(rows)
            action["add"]["deletionVector"] = {
                "storageType": "i",
                "pathOrInlineDv": _z85(data),
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }

    rewrite(folder, change)


def rename_columns(folder, names):
    """Give the columns other names by column mapping, without writing their file anew."""

    def change(action):
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            schema = json.loads(action["metaData"]["schemaString"])
            for i, field in enumerate(schema["fields"]):
                field["metadata"] = {
                    "delta.columnMapping.id": i + 1,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = names[field["name"]]
            action["metaData"]["schemaString"] = json.dumps(schema)

    rewrite(folder, change)


def _vector(rows):
    """Row numbers below 65,536 as a 64-bit Roaring bitmap in the form of the Delta protocol."""
    few = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    return struct.pack("<IQI", 1681511377, 1, 0) + few + struct.pack(f"<{len(rows)}H", *rows)


def _z85(data):
    data += b"\0" * (-len(data) % 4)
    text = ""
    for (value,) in struct.iter_unpack(">I", data):
        text += "".join(_Z85[value // 85**power % 85] for power in range(4, -1, -1))
    return text
