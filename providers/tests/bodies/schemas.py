"""Rules for JSON Schemas in requests: of arguments, in strict mode, and of answers."""

import re

BRANCHES = ("allOf", "anyOf", "enum", "not", "oneOf", "$ref")
CHECKS = {
    "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "uniqueItems",
}
# What strict mode knows.
STRICT = {
    "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties",
    "required", "type",
}


def inner(schema, where):
    """Returns each schema in a schema, with its path."""
    yield where, schema
    if not isinstance(schema, dict):
        return
    for word in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, value in schema.get(word, {}).items():
            yield from inner(value, f"{where}.{word}.{name}")
    for word in ("allOf", "anyOf", "oneOf", "prefixItems"):
        for at, value in enumerate(schema.get(word, [])):
            yield from inner(value, f"{where}.{word}.{at}")
    for word in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
        if word in schema:
            yield from inner(schema[word], f"{where}.{word}")


def arguments(schema, strict, where):
    """Yields the faults of the schema of a tool's arguments."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield where, "no object with properties"
    for word in BRANCHES:
        if word in schema:
            yield where, f"{word} at the root"
    for missing in set(schema.get("required", [])) - schema.get("properties", {}).keys():
        yield where, f"requires {missing!r}, which is no property"
    yield from plain(schema, where)
    if strict:
        yield from closed(schema, where)
        for path, one in inner(schema, where):
            if not isinstance(one, dict):
                continue
            if unknown := one.keys() - STRICT:
                yield path, f"strict mode does not know {sorted(unknown)}"
            if set(one.get("required", [])) != one.get("properties", {}).keys():
                yield path, "strict mode needs all properties to be required"


def answer(schema, where):
    """Yields the faults of the schema of an answer."""
    if schema.get("type") != "object":
        yield where, "no object"
    for word in BRANCHES:
        if word in schema:
            yield where, f"{word} at the root"
    yield from plain(schema, where)


def plain(schema, where):
    """Yields what is no schema of 2020-12, or leads nowhere."""
    for path, one in inner(schema, where):
        if not isinstance(one, dict):
            continue
        for word, value in one.items():
            if value is None and word not in ("const", "default"):
                yield path, f"{word} is null"
        if isinstance(one.get("items"), list):
            yield path, "items is a list"
        if any(isinstance(one.get(f"exclusive{word}"), bool) for word in ("Minimum", "Maximum")):
            yield path, "a bound that is a flag"
        reference = one.get("$ref")
        if reference is not None and target(schema, reference) is None:
            yield path, f"{reference} leads nowhere"


def target(root, reference):
    if not re.fullmatch(r"#(/.*)?", reference):
        return None
    for step in reference.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        root = root.get(step) if isinstance(root, dict) else None
    return root


def closed(schema, where):
    """Yields the faults of a schema that a grammar shall enforce."""
    yield from plain(schema, where)
    for path, one in inner(schema, where):
        if not isinstance(one, dict):
            if one is not False or not path.endswith("additionalProperties"):
                yield path, f"{one} is no grammar"
            continue
        if "properties" in one and one.get("additionalProperties") is not False:
            yield path, "an object that is not closed"
        if one.get("type") == "object" and "properties" not in one:
            yield path, "an object without properties"
        if words := one.keys() & CHECKS:
            yield path, f"no grammar has {sorted(words)}"
