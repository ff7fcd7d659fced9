//! Tests of the decoder.

use super::*;

/// Returns the events of these payloads in short form.
fn decode<S: AsRef<str>>(payloads: &[S]) -> Vec<String> {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in payloads {
        decoder.decode(payload.as_ref(), &mut out);
    }
    decoder.finish(&mut out);
    let short = |event| match event {
        ModelEvent::BlockStart { block, kind: BlockKind::ToolCall { id, name } } => {
            format!("{block}: {id} {name}")
        }
        ModelEvent::BlockStart { block, kind } => format!("{block}: {kind:?}"),
        ModelEvent::Delta { block, delta } => format!("{block}+{delta}"),
        ModelEvent::BlockEnd { block, signature } => {
            format!("{block}.{}", signature.unwrap_or_default())
        }
        ModelEvent::Done { stop, .. } => format!("{stop:?}"),
        ModelEvent::Error(error) => format!("{:?}", error.kind),
        other => format!("{other:?}"),
    };
    out.into_iter().map(short).collect()
}

const SEALED: &str =
    r#"{"id":"rs_1",  "type":"reasoning","summary":[],"encrypted_content":"e\u0041"}"#;
const MESSAGE: &str = concat!(
    r#"{"type":"message","id":"m","content":[{"type":"output_text","text":"hi"},"#,
    r#"{"type":"refusal","refusal":"!"}]}"#,
);

fn added(index: u32, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.added","output_index":{index},"item":{item}}}"#)
}
fn done(index: u32, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
}
fn delta(kind: &str, index: u32, id: &str, delta: &str) -> String {
    format!(
        r#"{{"type":"response.{kind}.delta","output_index":{index},"item_id":"{id}",
            "delta":"{delta}"}}"#
    )
}
fn call(id: &str, arguments: &str) -> String {
    format!(
        r#"{{"type":"function_call","id":"{id}","call_id":"c","name":"f","arguments":{arguments}}}"#
    )
}
fn end(status: &str, more: &str) -> String {
    format!(
        r#"{{"type":"response.{status}","response":{{"status":"{status}","output":[]{more}}}}}"#
    )
}

#[test]
fn quirk_34_items_are_distinguished_by_index_whatever_their_ids() {
    let payloads = [
        added(0, &call("a", "\"\"")),
        added(1, &call("b", "\"\"")),
        delta("function_call_arguments", 1, "x", "["),
        delta("function_call_arguments", 0, "y", "{}"),
        done(0, &call("z", "\"{}\"")),
        done(1, &call("w", "\"[\"")),
        end("completed", ""),
    ];
    assert_eq!(decode(&payloads), ["0: c f", "1: c f", "1+[", "0+{}", "0.", "1.", "ToolCalls"]);
}

#[test]
fn quirk_35_what_was_streamed_counts_though_the_end_has_no_output() {
    let payloads = [delta("output_text", 0, "m", "hi"), end("completed", "")];
    assert_eq!(decode(&payloads), ["0: Text", "0+hi", "0.", "Stop"]);
    assert_eq!(
        decode(&[done(0, MESSAGE), end("completed", "")]),
        ["0: Text", "0+hi", "0+!", "0.", "Stop"]
    );
    let late = format!(r#"{{"type":"response.completed","response":{{"output":[{MESSAGE}]}}}}"#);
    let twice = [r#"{"type":"response.created"}"#.into(), done(0, MESSAGE)];
    assert_eq!(decode(&[twice.clone(), twice].concat())[4..6], ["Withdrawn", "0: Text"]);
    assert_eq!(decode(&[late]), ["0: Text", "0+hi", "0+!", "0.", "Stop"]);
    let whole = format!(
        r#"{{"object":"response","status":"completed","error":null,"output":[{MESSAGE}]}}"#
    );
    assert_eq!(decode(&[whole]), ["0: Text", "0+hi", "0+!", "0.", "Stop"]);
}

#[test]
fn a_thought_is_stored_byte_for_byte_unless_a_provider_item_follows() {
    let thought = [added(0, SEALED), done(0, SEALED)];
    let then = |item: &str| {
        decode(&[thought.as_slice(), &[added(1, item), end("completed", "")]].concat())
    };
    assert_eq!(then(&call("a", "\"\""))[1], format!("0.{SEALED}"));
    assert_eq!(then(r#"{"type":"web_search_call"}"#)[..2], ["0: Thinking", "0."]);
    assert_eq!(
        decode(&[thought.as_slice(), &[end("completed", "")]].concat())[1],
        format!("0.{SEALED}")
    );
    let open = SEALED.replace("encrypted_content", "content_encrypted");
    assert_eq!(decode(&[done(0, &open), done(1, MESSAGE), end("completed", "")])[1], "0.");
}

#[test]
fn each_part_of_a_summary_is_a_block() {
    let part = |part: u32, text: &str| {
        let event = delta("reasoning_summary_text", 0, "r", text);
        event.replace("\"item_id\"", &format!("\"summary_index\":{part},\"item_id\""))
    };
    let payloads = [
        added(0, SEALED),
        part(0, "a"),
        part(0, "b"),
        part(1, "c"),
        done(0, SEALED),
        done(1, MESSAGE),
    ];
    let events = decode(&payloads);
    let sealed = format!("1.{SEALED}");
    assert_eq!(events[..7], ["0: Thinking", "0+a", "0+b", "0.", "1: Thinking", "1+c", &sealed]);
    let whole = SEALED.replace("[]", r#"[{"text":"a"},{"text":"b"}]"#);
    assert_eq!(decode(&[done(0, &whole)])[..5], ["0: Thinking", "0+a", "0.", "1: Thinking", "1+b"]);
}

#[test]
fn calls_have_arguments_in_any_case() {
    let arguments =
        |json: &str| decode(&[added(0, &call("a", json)), done(0, &call("a", json))])[1].clone();
    assert_eq!(arguments("\"\""), "0+{}");
    assert_eq!(arguments("null"), "0+{}");
    assert_eq!(arguments("\"{\\\"x\\\":1}\""), "0+{\"x\":1}");
    assert_eq!(arguments("{\"x\":1}"), "0+{\"x\":1}");
    let custom = r#"{"type":"custom_tool_call","call_id":"c","name":"sql"}"#;
    let deltas = ["say \\\"", "\\n"].map(|text| delta("custom_tool_call_input", 0, "x", text));
    let payloads = [
        added(0, custom),
        deltas[0].clone(),
        deltas[1].clone(),
        done(0, custom),
        end("completed", ""),
    ];
    assert_eq!(decode(&payloads), ["0: c sql", r#"0+"say \""#, r"0+\n", "0+\"", "0.", "ToolCalls"]);
}

#[test]
fn the_status_and_the_calls_decide_how_it_ends() {
    let because = |reason: &str| {
        end("incomplete", &format!(r#","incomplete_details":{{"reason":"{reason}"}}"#))
    };
    let cut = [added(0, &call("a", "\"\"")), delta("function_call_arguments", 0, "a", "{\\\"x")];
    let ends = |last: String| decode(&[cut.as_slice(), &[last]].concat()).pop().unwrap();
    assert_eq!(ends(because("max_output_tokens")), "Length");
    assert_eq!(ends(because("content_filter")), "ContentFilter");
    assert_eq!(ends(end("in_progress", "")), "Network");
    assert_eq!(ends("[DONE]".into()), "Network");
    assert_eq!(
        ends(end("failed", r#","error":{"code":"server_error","message":"Oh"}"#)),
        "Overloaded"
    );
    assert_eq!(ends(end("failed", "")), "Overloaded");
    let code = "context_length_exceeded";
    assert_eq!(
        ends(format!(r#"{{"type":"error","code":"{code}","message":"m"}}"#)),
        "ContextOverflow"
    );
    let large = concat!(
        r#"{"error":{"code":"rate_limit_exceeded","#,
        r#""message":"Request too large for m on tokens per min"}}"#,
    );
    assert_eq!(ends(large.into()), "InvalidRequest");
    assert_eq!(ends(r#"{"detail":"no"}"#.into()), "Overloaded");
}

#[test]
fn a_keep_alive_is_no_progress() {
    let mut decoder = Decoder::new(Endpoint::default());
    let keep_alive = r#"{"type":"keepalive","sequence_number":3}"#;
    assert_eq!(decoder.decode(keep_alive, &mut Events::new()), Progress::Waiting);
    assert_eq!(
        decoder.decode("{\"type\":\"response.created\"}", &mut Events::new()),
        Progress::Open
    );
    assert_eq!(decoder.decode(&end("completed", ""), &mut Events::new()), Progress::Ended);
}

#[test]
fn more_items_than_any_model_writes_are_refused() {
    let many =
        |count: usize| (0..count).map(|at| call(&format!("i{at}"), "\"{}\"")).collect::<Vec<_>>();
    let ended = |items: &[String]| {
        format!(
            r#"{{"type":"response.completed","response":{{"status":"completed","output":[{}]}}}}"#,
            items.join(",")
        )
    };
    let last = |payloads: &[String]| decode(payloads).pop().unwrap_or_default();
    assert_eq!(last(&[ended(&many(MAX_PARTS))]), "ToolCalls");
    assert_eq!(last(&[ended(&many(2 * MAX_PARTS))]), "Protocol");
    let added_items: Vec<String> =
        (0..).zip(many(2 * MAX_PARTS)).map(|(at, item)| added(at, &item)).collect();
    let events = decode(&added_items);
    assert_eq!((events.len(), last(&added_items).as_str()), (MAX_PARTS + 2, "Protocol"));
}

#[test]
fn a_response_that_fails_reports_its_usage() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    let usage = r#","usage":{"input_tokens":10,"output_tokens":5},"error":{"message":"no"}"#;
    decoder.decode(&end("failed", usage), &mut out);
    let events: Vec<ModelEvent> = out.into();
    assert_eq!(events[0], ModelEvent::Usage(Usage::new(10, 5)));
    assert!(matches!(&events[1..], [ModelEvent::Error(_)]), "{events:?}");
}

#[test]
fn the_cost_that_a_server_reports_is_part_of_the_usage() {
    let xai = include_str!("../../recordings/xai-ticks.sse");
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in xai.lines().filter_map(|line| line.strip_prefix("data: ")) {
        decoder.decode(payload, &mut out);
    }
    let usage = Usage::new(5, 9).reported_cost(1234e-10);
    assert_eq!(out.pop_back(), Some(ModelEvent::Done { stop: StopReason::Stop, usage }));
}
