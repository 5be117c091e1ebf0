"""Whether a JSON text fits its writer's JSON Schema, as the package jsonschema-rs says. It is asked when it is needed.

Nothing is fetched: what a schema refers to is another schema that the registry gave with it, found by its "$id" or by
the name that the registry has for it: a URL, or a part of one such as "address.json".
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

from lakehouse.errors import ConfigError
from lakehouse.formats.values.unfit import Unfit, check_number_length, clip_text, decode_utf8
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.number_text import exact_decimal

if TYPE_CHECKING:
    import jsonschema_rs

JSON_KIND = "JSON"  # as registries call a JSON Schema
_PACKAGE = "jsonschema_rs"
_WORDS_MAX = 200
_BASE_URI = "file:///"  # of a schema without an "$id": a name such as "address.json" is a part of a URI
_SCHEME, _PATH_SIGNS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:"), "/?=&+,;"
_URI_SIGNS = f":{_PATH_SIGNS}"


def check_can_validate() -> None:
    """Raise ConfigError if the package is missing."""
    if find_spec(_PACKAGE) is None:
        raise ConfigError(
            "Found no package to validate JSON; expected jsonschema-rs beside lakehouse. Install it: pip install "
            "'lakehouse[registry]'."
        )


def check_json(schema: WriterSchema, data: bytes) -> None:
    """Raise Unfit for a JSON text that does not fit a schema: where in it, and what the schema expects there."""
    validator = _validator(schema)
    try:
        value = _load(decode_utf8(data))
        if validator.is_valid(value):
            return
        misfit = min(validator.iter_errors(value), key=lambda one: (len(one.instance_path), str(one.schema_path)))
    except Unfit:
        raise
    except (ValueError, RecursionError) as error:
        raise Unfit(f"expected JSON that can be compared with a schema, found {clip_text(str(error))}") from error
    place = _pointer(misfit.instance_path) or "the whole"
    raise Unfit(
        f"{place}: expected what {_pointer(misfit.schema_path)} in the schema says, found that "
        f"{clip_text(misfit.message, _WORDS_MAX)}"
    )


def schema_problem(schema: WriterSchema) -> str | None:
    """Return why nothing can be compared with a schema; None if it can."""
    try:
        _validator(schema)
    except Unfit as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def _compiled_schema(schema: WriterSchema) -> jsonschema_rs.Validator | str:
    """Return the validator of a schema, or why there is none."""
    check_can_validate()
    import jsonschema_rs

    if schema.kind != JSON_KIND:
        return f"expected a JSON Schema, found one of {schema.kind}"
    try:
        content = _load(schema.text)
        resources = _resources(content, schema)
        registry = jsonschema_rs.Registry([*resources.items()]) if resources else None
        base_uri = None if _id_of(content) else _BASE_URI
        return jsonschema_rs.validator_for(content, registry=registry, base_uri=base_uri, offline=True)
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return f"expected a JSON Schema that can be used, found {clip_text(str(error), _WORDS_MAX)}"


def _resources(content: Any, schema: WriterSchema) -> dict[str, Any]:
    """Return the schemas to which one refers, parsed, by the URIs under which they are found."""
    references = [*map(_load, schema.references)]
    own_ids = {str(own_id): reference for reference in references if (own_id := _id_of(reference))}
    # Not every name is a URI, or a part of one: what can't stand there is escaped.
    names = [quote(name, safe=_URI_SIGNS if _SCHEME.match(name) else _PATH_SIGNS) for name in schema.names]
    bases = {str(_id_of(content) or _BASE_URI), _BASE_URI, *own_ids, *filter(_SCHEME.match, names)}
    named = {
        urljoin(base, name): reference for reference, name in zip(references, names, strict=False) for base in bases
    }
    return named | own_ids


def _validator(schema: WriterSchema) -> jsonschema_rs.Validator:
    compiled = _compiled_schema(schema)
    if isinstance(compiled, str):
        raise Unfit(compiled)
    return compiled


def _id_of(content: Any) -> Any:
    return content.get("$id") if isinstance(content, dict) else None


def _load(text: str) -> Any:
    return json.loads(text, parse_float=_exact_number, parse_constant=refuse_constant)


def _exact_number(text: str) -> Decimal:
    """Return a number as it is written: a double would be compared after it was rounded."""
    check_number_length(text)
    return exact_decimal(text)


def refuse_constant(name: str) -> None:
    """Raise Unfit: NaN and Infinity are no JSON, though Python reads them."""
    raise Unfit(f"expected JSON, found {name}")


def _pointer(path: list[str | int]) -> str:
    """Return a place in JSON as a JSON Pointer: /lines/0/amount."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
