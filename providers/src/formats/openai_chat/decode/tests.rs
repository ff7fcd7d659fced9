//! Tests of the decoder.

use super::*;

/// Returns the events of these payloads in short form. `EOF` ends the stream.
fn decode(payloads: &[&str]) -> Vec<String> {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in payloads {
        match *payload {
            "EOF" => decoder.finish(&mut out),
            payload => drop(decoder.decode(payload, &mut out)),
        }
    }
    let short = |event| match event {
        ModelEvent::BlockStart { block, kind: BlockKind::ToolCall { id, name } } => {
            format!("{block}: {id} {name}")
        }
        ModelEvent::BlockStart { block, kind } => format!("{block}: {kind:?}"),
        ModelEvent::Delta { block, delta } => format!("{block}+{delta}"),
        ModelEvent::BlockEnd { block, .. } => format!("{block}."),
        ModelEvent::Done { stop, .. } => format!("{stop:?}"),
        ModelEvent::Error(error) => format!("{:?}", error.kind),
        other => format!("{other:?}"),
    };
    out.into_iter().map(short).collect()
}

fn delta(delta: &str) -> String {
    format!("{{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}")
}

fn calls(calls: &str) -> String {
    delta(&format!("{{\"tool_calls\":[{calls}]}}"))
}

fn finish(reason: &str) -> String {
    format!("{{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}")
}

#[test]
fn thinking_and_text_are_blocks_of_their_own() {
    let payloads = [
        delta(r#"{"role":"assistant","content":"","reasoning_content":"h"}"#),
        delta(r#"{"content":null,"reasoning":"m"}"#),
        delta(r#"{"content":"o"}"#),
        delta(r#"{"content":[{"type":"text","text":"k"}]}"#),
        finish("stop"),
    ];
    let payloads: Vec<&str> =
        payloads.iter().map(String::as_str).chain([": ping", "[DONE]"]).collect();
    assert_eq!(
        decode(&payloads),
        ["0: Thinking", "0+h", "0+m", "0.", "1: Text", "1+o", "1+k", "1.", "Stop"]
    );
}

#[test]
fn thinking_within_the_text_is_a_block_of_its_own() {
    let content = |text: &str| delta(&serde_json::json!({ "content": text }).to_string());
    let payloads = [content("<thi"), content("nk>a"), content("</think>\n\n"), content("42")];
    let end = finish("stop");
    let mut payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    payloads.extend([&*end, "[DONE]"]);
    assert_eq!(decode(&payloads), ["0: Thinking", "0+a", "0.", "1: Text", "1+42", "1.", "Stop"]);
    // What is held when a call begins or the reply ends is not lost.
    let call = calls(r#"{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}"#);
    assert_eq!(decode(&[&content("<t"), &call])[..3], ["0: Text", "0+<t", "0."]);
    assert_eq!(decode(&[&content("\n"), &end, "[DONE]"])[..2], ["0: Text", "0+\n"]);
}

#[test]
fn a_call_in_the_older_form_is_a_call() {
    let payloads = [
        delta(r#"{"content":null,"function_call":{"name":"f","arguments":""}}"#),
        delta(r#"{"function_call":{"arguments":"{\"n\":"}}"#),
        delta(r#"{"function_call":{"arguments":"1}"}}"#),
        finish("function_call"),
        "[DONE]".into(),
    ];
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    assert_eq!(decode(&payloads), ["0:  f", "0+{\"n\":", "0+1}", "0.", "ToolCalls"]);
    let both = delta(r#"{"tool_calls":null,"function_call":null,"content":"a"}"#);
    assert_eq!(decode(&[&both, "[DONE]"]), ["0: Text", "0+a", "0.", "Stop"]);
}

#[test]
fn calls_are_distinguished_by_index_id_or_name() {
    let one = r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#;
    let cases = [
        (
            "by index from 1",
            [one.replace(":0", ":1"), one.replace(":0", ":2").replace("\"a\"", "\"b\"")],
        ),
        ("index always 0", [one.to_owned(), one.replace("\"a\"", "\"b\"")]),
        (
            "no index",
            [
                one.replace("\"index\":0,", ""),
                one.replace("\"index\":0,\"id\":\"a\"", "\"id\":\"b\""),
            ],
        ),
    ];
    for (case, [a, b]) in cases {
        let events = decode(&[&calls(&a), &calls(&b), &finish("stop"), "EOF"]);
        assert_eq!(events, ["0: a f", "0+{}", "1: b f", "1+{}", "0.", "1.", "ToolCalls"], "{case}");
    }
    let bare = r#"{"function":{"name":"f","arguments":{"x":1}}}"#;
    let events = decode(&[&calls(bare), &calls(bare), "[DONE]"]);
    assert_eq!(events, ["0:  f", "0+{\"x\":1}", "1:  f", "1+{\"x\":1}", "0.", "1.", "ToolCalls"]);
}

#[test]
fn interleaved_fragments_are_assigned_to_their_calls() {
    let part = |index, arguments: &str| {
        calls(&format!(r#"{{"index":{index},"function":{{"arguments":"{arguments}"}}}}"#))
    };
    let begin = |index, id| {
        calls(&format!(
            r#"{{"index":{index},"id":"{id}","function":{{"name":"f","arguments":""}}}}"#
        ))
    };
    let payloads = [
        begin(0, "a"),
        begin(1, "b"),
        part(0, "{"),
        part(1, "["),
        part(0, "}"),
        finish("tool_calls"),
    ];
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).chain(["EOF"]).collect();
    assert_eq!(
        decode(&payloads),
        ["0: a f", "1: b f", "0+{", "1+[", "0+}", "0.", "1.", "ToolCalls"]
    );
}

#[test]
fn the_reply_decides_how_it_ended() {
    let call = calls(r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#);
    assert_eq!(decode(&[&call, &finish("stop"), "EOF"]), ["0: a f", "0+{}", "0.", "ToolCalls"]);
    assert_eq!(decode(&[&finish("tool_calls"), "[DONE]"]), ["Stop"]);
    assert_eq!(decode(&[&finish("length"), "EOF"]), ["Length"]);
    assert_eq!(decode(&[&finish("content_filter"), "EOF"]), ["ContentFilter"]);
    assert_eq!(decode(&[&call, "EOF"]).last().unwrap(), "Network");
    assert_eq!(decode(&["[DONE]"]), ["Protocol"]);
    assert_eq!(decode(&["{\"choices\":"]), ["Protocol"]);
    assert_eq!(decode(&[&finish("stop"), r#"{"error":"boom"}"#, "[DONE]", "EOF"]), ["Overloaded"]);
    assert_eq!(decode(&[r#"{"error":{"message":"no","code":401}}"#]), ["Auth"]);
}

#[test]
fn more_calls_than_any_model_writes_are_refused() {
    let call = |id: usize| format!(r#"{{"index":0,"id":"c{id}","function":{{"name":"f"}}}}"#);
    let max: Vec<String> = (0..MAX_PARTS).map(call).collect();
    let events = decode(&[&calls(&max.join(",")), &finish("stop"), "EOF"]);
    assert_eq!((events.len(), events.last().unwrap().as_str()), (3 * MAX_PARTS + 1, "ToolCalls"));
    let many = [max, vec![call(MAX_PARTS), call(0)]].concat();
    let events = decode(&[&calls(&many.join(",")), &finish("stop"), "EOF"]);
    assert_eq!((events.len(), events.last().unwrap().as_str()), (MAX_PARTS + 1, "Protocol"));
}

#[test]
fn the_last_usage_counts() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    let payloads = [
        r#"{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        concat!(
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"#,
            r#""x_groq":{"usage":{"prompt_tokens":7}}}"#,
        ),
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":17,
            "prompt_tokens_details":{"cached_tokens":4},
            "completion_tokens_details":{"reasoning_tokens":2}}}"#,
        "[DONE]",
    ];
    let progress: Vec<Progress> = payloads.iter().map(|p| decoder.decode(p, &mut out)).collect();
    assert_eq!(progress, [Progress::Open, Progress::Complete, Progress::Complete, Progress::Ended]);
    let usage = Usage::new(6, 7).cache(4, 0).reasoning(2);
    assert_eq!(out.pop_back(), Some(ModelEvent::Done { stop: StopReason::Stop, usage }));
}

/// Plain text is not parsed if the text around it is known. The result must be the same.
#[test]
fn plain_text_is_read_as_any_other() {
    for text in
        ["a", "", " ü🐑 ", "{}", r"a\nb", r#"\""#, r"\u00e4", "\t", "\u{7f}", r#"x","y":"z"#]
    {
        let content = format!("{{\"content\":\"{text}\"}}");
        let known = decode(&[&delta(r#"{"content":"x"}"#), &delta(&content), &finish("stop")]);
        let other = format!("{{\"choices\":[{{\"delta\":{content},\"index\":0}}]}}");
        let unknown = decode(&[&delta(r#"{"content":"x"}"#), &other, &finish("stop")]);
        assert_eq!(known, unknown, "{text}");
    }
}

#[test]
fn usage_is_reported_before_an_error() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in [
        r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5}}"#,
        r#"{"error":{"message":"gone"}}"#,
    ] {
        decoder.decode(payload, &mut out);
    }
    let events: Vec<ModelEvent> = out.into();
    assert_eq!(events[0], ModelEvent::Usage(Usage::new(10, 5)));
    assert!(matches!(&events[1..], [ModelEvent::Error(_)]), "{events:?}");
}

/// Returns the signatures of the blocks of thinking in a reply.
fn signatures(payloads: &[String]) -> Vec<String> {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in payloads {
        decoder.decode(payload, &mut out);
    }
    decoder.finish(&mut out);
    let signature = |event| match event {
        ModelEvent::BlockEnd { signature, .. } => signature.map(|signature| signature.to_string()),
        _ => None,
    };
    out.into_iter().filter_map(signature).collect()
}

#[test]
fn thinking_is_marked_with_its_field() {
    for (thinking, mark) in [
        (r#"{"reasoning_content":"a"}"#, "thinking_in:reasoning_content"),
        (r#"{"reasoning":"a"}"#, "thinking_in:reasoning"),
        (r#"{"reasoning":"a","reasoning_content":"a"}"#, "thinking_in:reasoning_content"),
        (r#"{"reasoning_text":"a"}"#, "thinking_in:reasoning_text"),
        (r#"{"reasoning_text":"a","reasoning_opaque":"OPQ"}"#, "reasoning_opaque:OPQ"),
        (r#"{"content":[{"type":"thinking","thinking":"a"}]}"#, "thinking_in:content"),
        (r#"{"content":"<think>a</think>b"}"#, "thinking_in:<think>"),
        (r#"{"content":"<thinking>a</thinking>"}"#, "thinking_in:<thinking>"),
    ] {
        let payloads = [delta(thinking), delta(r#"{"content":"b"}"#), finish("stop")];
        assert_eq!(signatures(&payloads), [mark], "{thinking}");
    }
    let late =
        [delta(r#"{"content":"b"}"#), delta(r#"{"reasoning_opaque":"OPQ"}"#), finish("stop")];
    assert_eq!(signatures(&late), ["reasoning_opaque:OPQ"]);
}

#[test]
fn a_name_in_fragments_is_joined_until_the_arguments_begin() {
    let split = include_str!("../../recordings/name-split.sse");
    let payloads: Vec<&str> =
        split.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(decode(&payloads), ["0: a read_file", "0+{}", "0.", "ToolCalls"]);
    let named = |name: &str, arguments: &str| {
        calls(&format!(r#"{{"index":0,"function":{{"name":"{name}","arguments":"{arguments}"}}}}"#))
    };
    for parts in [["f", "f"], ["f", ""], ["", "f"]] {
        let payloads = parts.map(|name| named(name, ""));
        let payloads = [&payloads[0], &payloads[1], &named("f", "{}"), &finish("stop")];
        let events = decode(&payloads.map(String::as_str));
        assert_eq!(events[..2], ["0:  f", "0+{}"], "{parts:?}");
    }
    let later = [named("f", "{"), named("g", "}"), finish("stop"), "[DONE]".into()];
    let events = decode(&later.each_ref().map(String::as_str));
    assert_eq!(events, ["0:  f", "0+{", "0+}", "0.", "ToolCalls"]);
    let only_named = [named("f", ""), delta(r#"{"content":"a"}"#), finish("stop"), "[DONE]".into()];
    let events = decode(&only_named.each_ref().map(String::as_str));
    assert_eq!(events, ["0:  f", "1: Text", "1+a", "1.", "0+{}", "0.", "ToolCalls"]);
}

#[test]
fn a_call_of_a_custom_tool_has_its_name_and_its_input() {
    let begin = r#"{"index":0,"id":"a","type":"custom","custom":{"name":"run","input":""}}"#;
    let more = r#"{"index":0,"custom":{"input":"say \"hi\"\n"}}"#;
    let payloads = [calls(begin), calls(more), calls(more), finish("tool_calls"), "[DONE]".into()];
    let events = decode(&payloads.each_ref().map(String::as_str));
    let input = r#"0+say \"hi\"\n"#;
    let first = input.replace('+', "+\"");
    assert_eq!(events, ["0: a run", &first, input, "0+\"", "0.", "ToolCalls"]);
    let empty = decode(&[&calls(begin), &finish("tool_calls"), "[DONE]"]);
    assert_eq!(empty, ["0: a run", "0+\"\"", "0.", "ToolCalls"]);
}

/// Returns the usage at the end of a stream.
fn usage_of(stream: &str) -> Usage {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    for payload in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        decoder.decode(payload, &mut out);
    }
    match out.pop_back() {
        Some(ModelEvent::Done { usage, .. }) => usage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_cached_tokens_of_moonshot_are_not_at_full_price() {
    let kimi = include_str!("../../recordings/kimi-cached-tokens.sse");
    assert_eq!(usage_of(kimi), Usage::new(100, 5).cache(900, 0));
}

#[test]
fn the_cost_that_a_server_reports_is_part_of_the_usage() {
    let of = |usage: &str| {
        let chunk = format!("{{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,{usage}}}}}");
        usage_of(&format!("data: {}\ndata: {chunk}\ndata: [DONE]", finish("stop")))
    };
    let openrouter = r#""cost":3.6e-6,"cost_details":{"upstream_inference_cost":3.6e-6}"#;
    assert_eq!(of(openrouter), Usage::new(9, 0).reported_cost(3.6e-6));
    let xai = r#""num_sources_used":0,"cost_in_usd_ticks":1330500"#;
    assert_eq!(of(xai), Usage::new(9, 0).reported_cost(0.000_133_05));
    assert_eq!(of(r#""cost_in_usd_ticks":0"#), Usage::new(9, 0), "it is not known");
}

#[test]
fn what_is_held_back_is_bounded() {
    let long = "x".repeat(1 << 20);
    for endless in [
        delta(&format!(r#"{{"reasoning_opaque":"{long}"}}"#)),
        delta(&format!(r#"{{"reasoning_details":[{{"type":"a","data":"{long}"}}]}}"#)),
        calls(&format!(r#"{{"index":0,"id":"a","function":{{"name":"{long}"}}}}"#)),
        calls(&format!(r#"{{"index":0,"id":"a","function":{{"arguments":"{long}"}}}}"#)),
    ] {
        let payloads = [&*endless; 10];
        assert_eq!(decode(&payloads).last().map(String::as_str), Some("Protocol"));
    }
}
