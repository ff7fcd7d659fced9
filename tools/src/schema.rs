//! Schemas that every model provider accepts, even in its strict mode.

use loopwright_core::tool::ToolSpec;
use serde_json::Value;

/// Reduces the schema of `spec` to the subset that all providers support: no additional arguments,
/// and only the type and description of each argument. Tools check all other constraints themselves
/// and report violations in their results.
pub(crate) fn strict(mut spec: ToolSpec) -> ToolSpec {
    if let Some(schema) = spec.schema.as_object_mut() {
        schema.remove("$schema");
        schema.insert("additionalProperties".into(), false.into());
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for property in
            properties.into_iter().flat_map(|all| all.values_mut()).filter_map(Value::as_object_mut)
        {
            property.retain(|word, _| ["type", "description"].contains(&word.as_str()));
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_types_and_descriptions_are_left() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Args {
            /// Where.
            path: String,
            #[schemars(range(min = 1))]
            limit: Option<u64>,
        }
        let spec = strict(ToolSpec::new::<Args>("f", "Does f."));
        let path = json!({ "type": "string", "description": "Where." });
        let properties = json!({ "path": path, "limit": { "type": ["integer", "null"] } });
        let wanted = json!({
            "type": "object",
            "properties": properties,
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(spec.schema, wanted);
    }
}
