//! Bounds and checks against a hostile server.

use super::*;

const GIF: &str = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7";

fn spec(tool: Value) -> Result<ToolSpec, String> {
    tool_spec("s", &tool, false)
}

#[test]
fn a_listed_tool_becomes_a_specification() {
    let spec = spec(json!({
        "name": "add",
        "title": "Add",
        "description": "Adds two numbers.",
        "inputSchema": { "properties": { "a": { "type": "number" } } },
    }))
    .unwrap();
    assert_eq!((&*spec.name, spec.title.as_deref()), ("s__add", Some("Add")));
    assert_eq!(spec.schema["type"], "object");
    assert_eq!((spec.effect, spec.sequential), (Effect::AtMostOnce, true));
}

/// C347: The annotations of a tool never make it run without approval, unless the user trusts the
/// annotations of its server.
#[test]
fn annotations_do_not_decide_about_approval() {
    let tool = |hints: Value| json!({ "name": "x", "inputSchema": {}, "annotations": hints });
    for (hints, effect, trusted_effect) in [
        (json!({}), Effect::AtMostOnce, Effect::AtMostOnce),
        (json!({ "readOnlyHint": true }), Effect::Idempotent, Effect::ReadOnly),
        (json!({ "idempotentHint": true }), Effect::Idempotent, Effect::Idempotent),
        (json!({ "destructiveHint": false }), Effect::AtMostOnce, Effect::AtMostOnce),
    ] {
        assert_eq!(tool_spec("s", &tool(hints.clone()), false).unwrap().effect, effect, "{hints}");
        let trusted = tool_spec("s", &tool(hints.clone()), true).unwrap();
        assert_eq!(trusted.effect, trusted_effect, "{hints}");
    }
}

#[test]
fn a_schema_may_have_empty_values_of_other_types() {
    for schema in [
        json!({ "type": "object", "properties": [] }),
        json!({ "type": null, "properties": null, "required": null }),
        json!({ "type": ["object", "null"] }),
    ] {
        let spec = spec(json!({ "name": "x", "inputSchema": schema })).unwrap();
        assert_eq!(spec.schema["type"], "object");
    }
}

#[test]
fn tools_that_are_none_are_refused() {
    for (tool, expected) in [
        (json!(7), "not a tool"),
        (json!({ "name": "x" }), "not a tool"),
        (json!({ "name": "x", "inputSchema": { "type": "string" } }), "not one of an object"),
        (json!({ "name": "x", "inputSchema": { "properties": 7 } }), "not an object"),
        (
            json!({ "name": "x", "inputSchema": { "description": "y".repeat(70_000) } }),
            "more than 65536 bytes",
        ),
    ] {
        let why = spec(tool.clone()).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn names_are_valid_and_differ() {
    let name = |name: &str| spec(json!({ "name": name, "inputSchema": {} })).unwrap().name;
    assert_eq!(&*name("a-b_C1"), "s__a-b_C1");
    let names =
        ["", "a b", "a/b", "a__b", &"x".repeat(64), &format!("{}y", "x".repeat(64))].map(name);
    for name in &names {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(name.len() <= 64 && name.chars().all(legal), "{name}");
    }
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn descriptions_are_bounded_and_definitions_are_not() {
    let tool = |end: &str| {
        let description = format!("{}{end}", "é".repeat(5_000));
        json!({ "name": "x", "description": description, "inputSchema": {} })
    };
    let description = spec(tool("a")).unwrap().description;
    assert!(description.len() < MAX_DESCRIPTION_BYTES + 10 && description.ends_with(" […]"));
    let definition = |end| definition_of(&Tool::deserialize(&tool(end)).unwrap());
    assert_ne!(definition("a"), definition("b"));
}

#[test]
fn a_result_has_text_images_and_data() {
    let output = tool_output(&json!({
        "content": [
            { "type": "text", "text": "Here." },
            { "type": "image", "data": GIF, "mimeType": "image/gif" },
            { "type": "resource_link", "uri": "file:///a", "name": "a" },
            { "type": "resource", "resource": { "uri": "file:///b", "text": "B" } },
            { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
        ],
        "structuredContent": { "n": 1 },
    }))
    .unwrap();
    assert_eq!(output.details, Some(json!({ "n": 1 })));
    assert_eq!(output.content[1], Content::image("image/gif", GIF));
    let texts = text_of(&output.content);
    assert_eq!(
        texts,
        "Here.\n[Resource file:///a: a]\n[Resource file:///b]\nB\n[Audio of about 3 bytes, \
         audio/wav, which is left out.]"
    );
}

#[test]
fn structured_content_alone_is_for_the_model_too() {
    let output = tool_output(&json!({ "structuredContent": { "n": 1 } })).unwrap();
    assert_eq!(text_of(&output.content), r#"{"n":1}"#);
    let output = tool_output(&json!({ "content": [] })).unwrap();
    assert_eq!(text_of(&output.content), "The result is empty.");
}

#[test]
fn errors_are_errors() {
    let failed = json!({ "content": [{ "type": "text", "text": "No disk." }], "isError": true });
    assert_eq!(tool_output(&failed), Err(ToolError::Failed("No disk.".into())));
    assert!(tool_output(&json!("x")).unwrap_err().to_string().contains("invalid"));
}

/// C354: An image of a server is what its bytes are; what a provider would refuse never reaches a
/// model.
#[test]
fn images_are_what_their_bytes_are() {
    let of = |data: &str, media_type: &str| {
        let image = json!({ "type": "image", "data": data, "mimeType": media_type });
        tool_output(&json!({ "content": [image] })).unwrap().content.remove(0)
    };
    for media_type in ["image/gif", "IMAGE/GIF", "image/png; charset=binary", "image/jpg", ""] {
        assert_eq!(of(GIF, media_type), Content::image("image/gif", GIF), "{media_type}");
    }
    for data in [&format!("data:image/gif;base64,{GIF}"), &GIF.replace("AAAA", "AA\r\nAA")] {
        assert_eq!(of(data, "image/gif"), Content::image("image/gif", GIF), "{data}");
    }
    for (data, why) in [
        ("!", "not base64"),
        ("R0lGODlh", "damaged"),
        ("PHN2Zy8+", "neither a PDF nor an image"),
        (&"A".repeat(8 << 20), "larger than"),
    ] {
        let Content::Text { text } = of(data, "image/svg+xml") else { panic!("{why}") };
        assert!(text.contains("image/svg+xml is left out") && text.contains(why), "{text}");
    }
    let image = json!({ "type": "image", "data": GIF, "mimeType": "image/gif" });
    let output = tool_output(&json!({ "content": vec![image; 20] })).unwrap();
    let images = output.content.iter().filter(|item| matches!(item, Content::Image { .. }));
    assert_eq!(images.count(), MAX_IMAGES);
}
