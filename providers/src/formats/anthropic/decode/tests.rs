//! Tests of the decoder.

use super::*;

fn decode(payloads: &[&str]) -> Vec<String> {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in payloads {
        decoder.decode(payload, &mut out);
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
    let is_shown = |event: &ModelEvent| !matches!(event, ModelEvent::Usage(_));
    out.into_iter().filter(is_shown).map(short).collect()
}

const BEGIN: &str =
    r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":3}}}"#;
const END: &str = r#"{"type":"message_stop"}"#;

fn start(index: u32, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

/// Returns a `message_start` that already contains `block`.
fn begin_with(block: &str) -> String {
    format!(r#"{{"type":"message_start","message":{{"content":[{block}]}}}}"#)
}

fn delta(index: u32, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn stop(index: u32) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn finish(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},
            "usage":{{"output_tokens":2}}}}"#
    )
}

#[test]
fn thinking_keeps_its_signature_and_what_the_provider_runs_is_left_out() {
    let payloads = [
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"s1"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"s2"}"#),
        stop(0),
        start(1, r#"{"type":"redacted_thinking","data":"d"}"#),
        stop(1),
        start(2, r#"{"type":"server_tool_use","id":"x","name":"web_search","input":{}}"#),
        delta(2, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
        stop(2),
        start(3, r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":""}"#),
        stop(3),
        finish("end_turn"),
    ];
    let all: Vec<&str> =
        [BEGIN].into_iter().chain(payloads.iter().map(String::as_str)).chain([END]).collect();
    let events = [
        "0: Thinking",
        "0+hm",
        "0.s1s2",
        "1: Thinking",
        "1.redacted:d",
        "2: a f",
        "2+{}",
        "2.",
        "ToolCalls",
    ];
    assert_eq!(decode(&all), events);
}

#[test]
fn only_the_last_event_ends_a_reply() {
    let text = start(0, r#"{"type":"text","text":"a"}"#);
    assert_eq!(decode(&[BEGIN, &text, &stop(0), &finish("end_turn")]).last().unwrap(), "Network");
    assert_eq!(
        decode(&[BEGIN, &text, &finish("max_tokens"), END]),
        ["0: Text", "0+a", "0.", "Length"]
    );
    assert_eq!(decode(&[BEGIN, &finish("refusal"), END]), ["ContentFilter"]);
    assert_eq!(decode(&[BEGIN, END]), ["Protocol"]);
    assert_eq!(
        decode(&[BEGIN, &text, BEGIN, &text, &finish("end_turn"), END])[2..5],
        ["Withdrawn", "0: Text", "0+a"]
    );
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(decode(&[BEGIN, error, END]), ["Overloaded"]);
    let whole =
        r#"{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}"#;
    assert_eq!(decode(&[whole]), ["0: Text", "0+a", "0.", "Stop"]);
}

#[test]
fn blocks_in_the_start_of_a_message_are_part_of_the_reply_once() {
    let call = r#"{"type":"tool_use","id":"a","name":"f","input":{"n":1},"caller":{}}"#;
    let (begin, finish) = (begin_with(call), finish("tool_use"));
    let first = ["0: a f", "0+{\"n\":1}", "0."];
    assert_eq!(decode(&[&begin, &finish, END]), [&first[..], &["ToolCalls"]].concat());
    let text = start(1, r#"{"type":"text","text":"b"}"#);
    let both = [&first[..], &["1: Text", "1+b", "1.", "ToolCalls"]].concat();
    assert_eq!(decode(&[&begin, &text, &finish, END]), both);
    let repeated = start(0, call);
    let once = decode(&[&begin, &repeated, &stop(0), &finish, END]);
    assert_eq!(once, [&first[..], &["ToolCalls"]].concat(), "the stream repeats it");
    assert_eq!(decode(&[&begin]), ["Network"], "the message has not ended");
}

#[test]
fn a_reply_of_blocks_that_cannot_be_shown_says_so() {
    let tool = start(0, r#"{"type":"server_tool_use","id":"x","name":"s","input":{}}"#);
    let note = "[The reply has content that cannot be shown: server_tool_use.]";
    assert_eq!(
        decode(&[BEGIN, &tool, &stop(0), &finish("end_turn"), END]),
        ["0: Text", &format!("0+{note}"), "0.", "Stop"]
    );
}

#[test]
fn a_turn_that_stops_after_a_compaction_continues() {
    let (mut decoder, sent) = (Decoder::new(Endpoint::default()), br#"{"messages": [{}]}"#);
    for payload in [
        BEGIN,
        &start(0, r#"{"type":"compaction","content":null}"#),
        &delta(0, r#"{"type":"compaction_delta","content":"The summary."}"#),
        &stop(0),
        &finish("compaction"),
        END,
    ] {
        decoder.decode(payload, &mut Events::new());
    }
    let body: serde_json::Value = serde_json::from_slice(&decoder.resume(sent).unwrap()).unwrap();
    let summary = serde_json::json!([{"type": "compaction", "content": "The summary."}]);
    assert_eq!(body["messages"][1]["content"], summary);
    let mut out = Events::new();
    let text = start(0, r#"{"type":"text","text":"a"}"#);
    for payload in [BEGIN, &text, &finish("end_turn"), END] {
        decoder.decode(payload, &mut out);
    }
    // Each of the two messages used 3 and 2 tokens.
    let usage = Usage::new(6, 4).outside_context(5);
    assert_eq!(out.pop_back(), Some(ModelEvent::Done { stop: StopReason::Stop, usage }));
}

#[test]
fn more_blocks_than_any_model_writes_are_refused() {
    let many: Vec<String> =
        (0..=MAX_PARTS as u32).map(|at| start(at, r#"{"type":"text"}"#)).collect();
    let all: Vec<&str> =
        [BEGIN].into_iter().chain(many.iter().map(String::as_str)).chain([END]).collect();
    let events = decode(&all);
    assert_eq!((events.len(), events.last().unwrap().as_str()), (MAX_PARTS + 1, "Protocol"));
}

#[test]
fn only_a_paused_turn_goes_on() {
    let (mut decoder, sent) = (Decoder::new(Endpoint::default()), br#"{"messages": [{}]}"#);
    assert_eq!(decoder.resume(sent), None);
    assert_eq!(decoder.transcript.pauses, 0, "nothing was made of it");
    for payload in [BEGIN, &finish("pause_turn"), END] {
        decoder.decode(payload, &mut Events::new());
    }
    assert!(decoder.resume(sent).is_some());
}

#[test]
fn a_ping_is_no_progress() {
    let mut decoder = Decoder::new(Endpoint::default());
    assert_eq!(decoder.decode(r#"{"type": "ping"}"#, &mut Events::new()), Progress::Waiting);
    assert_eq!(decoder.decode(BEGIN, &mut Events::new()), Progress::Open);
}

#[test]
fn usage_is_reported_before_the_end() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in [
        BEGIN,
        r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":9}}"#,
        BEGIN, // the attempt is sent again
        r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#,
    ] {
        decoder.decode(payload, &mut out);
    }
    let events: Vec<ModelEvent> = out.into();
    let used = |output| ModelEvent::Usage(Usage::new(3, output));
    assert_eq!(events[..3], [used(9), ModelEvent::Withdrawn, used(0)]);
    assert!(matches!(&events[3..], [ModelEvent::Error(_)]), "{events:?}");
}

#[test]
fn the_reason_of_a_refusal_is_kept() {
    let refusal = include_str!("../../recordings/anthropic-refusal.sse");
    let payloads: Vec<&str> =
        refusal.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let note = "[The provider refused the reply or cut it off: This request was declined because \
                of X.]";
    assert_eq!(decode(&payloads), ["0: Text", &format!("0+{note}"), "0.", "ContentFilter"]);
    let text = [&start(0, r#"{"type":"text","text":"a"}"#), r#"{"type":"content_block_stop"}"#];
    let ended = |details: &str| {
        let delta = format!(r#"{{"stop_reason":"refusal","stop_details":{details}}}"#);
        let delta = format!(r#"{{"type":"message_delta","delta":{delta}}}"#);
        decode(&[BEGIN, text[0], text[1], &delta, END])
    };
    let cyber = ended(r#"{"category":"cyber","explanation":null}"#);
    assert_eq!(cyber[4], "1+\n\n[The provider refused the reply or cut it off: cyber]");
    for nothing in ["null", "7", "{}"] {
        assert_eq!(ended(nothing)[2..], ["0.", "ContentFilter"], "{nothing}");
    }
    let whole = r#"{"type":"message","content":[],"stop_reason":"refusal",
        "stop_details":{"explanation":"No."}}"#;
    assert!(decode(&[whole])[1].ends_with(": No.]"));
}

#[test]
fn a_signature_is_bounded() {
    let part = format!(r#"{{"type":"signature_delta","signature":"{}"}}"#, "x".repeat(1 << 20));
    let begin = start(0, r#"{"type":"thinking","thinking":""}"#);
    let endless = delta(0, &part);
    let payloads: Vec<&str> = [BEGIN, &begin].into_iter().chain([&*endless; 10]).collect();
    assert_eq!(decode(&payloads).last().map(String::as_str), Some("Protocol"));
}
