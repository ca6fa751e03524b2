"""The OpenAPI document, generated from the operations and shapes of this package.

`python -m lochan.wire.openapi` prints it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from lochan.model.contents import KNOWN_TYPES
from lochan.wire.contents import ContentJson
from lochan.wire.operations import PARAMETERS, WIRE_NAMES, ApiOperation, Parameter
from lochan.wire.operations_access import ACCESS_PREFIX, OPERATIONS_ACCESS
from lochan.wire.operations_events import EVENTS_PREFIX, OPERATIONS_EVENTS
from lochan.wire.operations_files import FILES_PREFIX, OPERATIONS_FILES
from lochan.wire.operations_store import OPERATIONS_STORE, STORE_PREFIX
from lochan.wire.operations_v1 import OPERATIONS_V1
from lochan.wire.operations_v2 import OPERATIONS_V2
from lochan.wire.problems import ErrorJson

_JSON: Final = "application/json"
_SCHEMAS: Final = "#/components/schemas/{name}"

_BYTES: Final = {
    "*/*": {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}
}

_PLAIN: Final = re.compile(r"[A-Za-z/$][A-Za-z0-9_./{}$ -]*[A-Za-z0-9_}]|[A-Za-z]")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_ABOUT: Final = (
    "Tables and views of a lakehouse under version control: the Nessie REST API, versions 2 and "
    "1, what Lochan adds to version 2 (tagged `beyond`), files in the same history (tagged "
    "`files`), and who may do what (tagged `access`). A server that was set up needs credentials. "
    "Responses that contain the hash of a reference have it as `ETag` too."
)

_ERRORS: Final = {
    "Invalid": ("400", "The request is wrong; it changes nothing."),
    "Unauthenticated": ("401", "The request has no credentials, or none that are valid."),
    "Denied": ("403", "The caller may not do this."),
    "NotFound": ("404", "What was named does not exist, or the caller may not see it."),
    "Conflict": ("409", "The write was refused; all conflicts are listed."),
    "NotJson": ("415", "The body is not JSON."),
    "Unavailable": ("503", "Nothing happened; try again later."),
    "OutcomeUnknown": ("504", "It is unknown whether the write took effect."),
    "Other": ("default", "Something else went wrong."),
}

_SERVER: Final = {"url": "/"}

_SECURITY: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of Lochan, or of an identity provider that the server trusts.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The id and the secret of an access key.",
    },
}


def build_document() -> dict[str, Any]:
    """Builds the document as plain values."""
    operations = [("/api/v2", each) for each in OPERATIONS_V2]
    operations += [("/api/v1", each) for each in OPERATIONS_V1]
    operations += [(FILES_PREFIX, each) for each in OPERATIONS_FILES]
    operations += [(EVENTS_PREFIX, each) for each in OPERATIONS_EVENTS]
    operations += [(ACCESS_PREFIX, each) for each in OPERATIONS_ACCESS]
    operations += [(STORE_PREFIX, each) for each in OPERATIONS_STORE]
    paths: dict[str, dict[str, Any]] = {}
    for prefix, each in operations:
        place = paths.setdefault(prefix + each.path, {})
        if prefix in (ACCESS_PREFIX, STORE_PREFIX):
            place["servers"] = [_SERVER]
        place[each.method.lower()] = _operation(prefix, each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lochan",
            "version": "2.2.0",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {**_SERVER, "description": "The default repository."},
            {
                "url": "/r/{repository}",
                "description": "Another repository.",
                "variables": {"repository": {"default": "default"}},
            },
        ],
        "paths": paths,
        "components": {
            "schemas": _schemas(each for _, each in operations),
            "parameters": {name: _parameter(name, each) for name, each in PARAMETERS.items()},
            "responses": {name: _error(about) for name, (_, about) in _ERRORS.items()},
            "securitySchemes": _SECURITY,
        },
        # Servers without users need no credentials.
        "security": [{}, *({name: []} for name in _SECURITY)],
    }


@cache
def document_text() -> str:
    """Returns the document as YAML."""
    return to_yaml(build_document())


def _operation(prefix: str, operation: ApiOperation) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.about,
        "tags": [_tag(prefix, operation)],
    }
    if operation.needs == "nothing":
        shown["security"] = []
    if operation.parameters:
        shown["parameters"] = [
            {"$ref": f"#/components/parameters/{name}"} for name in operation.parameters
        ]
    if operation.request is not None:
        shown["requestBody"] = {
            "required": operation.request_needed,
            "content": {_JSON: {"schema": _schema(operation.request)}},
        }
    if operation.bytes_in:
        shown["requestBody"] = {"required": False, "content": _BYTES}
    shown["responses"] = _responses(operation)
    return shown


def _tag(prefix: str, operation: ApiOperation) -> str:
    if prefix in (ACCESS_PREFIX, EVENTS_PREFIX, FILES_PREFIX, STORE_PREFIX):
        return prefix.split("/")[1]
    return "beyond" if operation.beyond else prefix.removeprefix("/api/")


def _parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "name": WIRE_NAMES.get(name, name),
        "in": parameter.place,
        "description": parameter.about,
        "required": parameter.required,
        "schema": parameter.schema,
    }


def _responses(operation: ApiOperation) -> dict[str, Any]:
    success: dict[str, Any] = {"description": operation.about}
    if operation.response is not None:
        success["content"] = {_JSON: {"schema": _schema(operation.response)}}
    if operation.bytes_out:
        success["content"] = _BYTES
    if operation.events_out:
        success["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    status = "200" if "content" in success else "204"
    responses: dict[str, Any] = {status: success}
    for name, (status, _) in _ERRORS.items():
        if name != "NotJson" or operation.request is not None:
            responses[status] = {"$ref": f"#/components/responses/{name}"}
    return responses


def _error(about: str) -> dict[str, Any]:
    return {"description": about, "content": {_JSON: {"schema": _schema(ErrorJson)}}}


def _schema(of: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([of], ref_template=_SCHEMAS)
    return schema


def _schemas(operations: Iterable[ApiOperation]) -> dict[str, Any]:
    """Returns every shape by its name, and the contents that shapes refer to."""
    shapes: list[Any] = [ErrorJson, *KNOWN_TYPES.values()]
    for each in operations:
        shapes += [one for one in (each.request, each.response) if one not in (None, ContentJson)]
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_SCHEMAS)
    schemas["OtherContent"] = {
        "title": "OtherContent",
        "description": "A content of a type that the server does not know: stored unchanged.",
        "type": "object",
        "properties": {
            "type": {"type": "string", "minLength": 1, "not": {"enum": list(KNOWN_TYPES)}},
            "id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["type"],
    }
    known = [_SCHEMAS.format(name=each.__name__) for each in KNOWN_TYPES.values()]
    refs = [*known, _SCHEMAS.format(name="OtherContent")]
    schemas["Content"] = {
        "title": "Content",
        "description": "The content of a key.",
        "anyOf": [{"$ref": ref} for ref in refs],
    }
    return dict(sorted(schemas.items()))


def to_yaml(value: dict[str, Any]) -> str:
    """Returns a document; texts are quoted wherever they could be read as something else."""
    lines: list[str] = []
    # A stack of what is still to be written: indentation, text before it, value.
    todo: list[tuple[int, str, Any]] = [(0, "", value)]
    while todo:
        depth, lead, each = todo.pop()
        indent = "  " * depth
        if isinstance(each, dict) and each:
            if lead:
                lines.append(lead)
            todo.extend(
                (depth + 1, f"{indent}{_text(name)}:", inner)
                for name, inner in reversed(each.items())
            )
        elif isinstance(each, list | tuple) and each:
            lines.append(lead)
            lines += [f"{indent}- {_flow(inner)}" for inner in each]
        else:
            lines.append(f"{lead} {_flow(each)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """Writes a value in one line; JSON is YAML."""
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and ": " not in text:
        return text if "{" not in text and "}" not in text else json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    sys.stdout.write(document_text())
