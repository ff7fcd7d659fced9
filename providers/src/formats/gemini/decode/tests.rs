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
    out.into_iter().map(short).collect()
}

fn parts(parts: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{parts}],"role":"model"}},"index":0}}],
            "responseId":"r"}}"#
    )
}
fn finish(reason: &str) -> String {
    format!(r#"{{"candidates":[{{"finishReason":"{reason}"}}]}}"#)
}

#[test]
fn thinking_text_and_calls_keep_their_signatures() {
    let payloads = [
        parts(r#"{"text":"h","thought":true},{"text":"m","thought":true,"thoughtSignature":"s0"}"#),
        parts(r#"{"text":"o"},{"text":"k"}"#),
        parts(r#"{"text":"","thoughtSignature":"s1"},{"executableCode":{"code":"1"}}"#),
        parts(
            r#"{"functionCall":{"name":"f","args":{"b": 1e2, "a":1}},"thoughtSignature":"s2"},
               {"functionCall":{"name":"f"}},{"functionCall":{"name":"g","id":"x","args":null}}"#,
        ),
        finish("STOP"),
    ];
    let events = [
        ["0: Thinking", "0+h", "0+m", "0.s0"].as_slice(),
        &["1: Text", "1+o", "1+k", "1.s1"],
        &[
            "2: gemini-call-r-0 f",
            "2+{\"b\": 1e2, \"a\":1}",
            "2.s2",
            "3: gemini-call-r-1 f",
            "3+{}",
            "3.",
        ],
        &["4: x g", "4+{}", "4.", "ToolCalls"],
    ];
    assert_eq!(decode(&payloads.each_ref().map(String::as_str)), events.concat());
}

#[test]
fn arguments_in_fragments_are_joined() {
    let fragment = |path: &str, text: &str, more: bool| {
        let arg = format!(r#"{{"jsonPath":"{path}","stringValue":"{text}"}}"#);
        parts(&format!(r#"{{"functionCall":{{"partialArgs":[{arg}],"willContinue":{more}}}}}"#))
    };
    let begin =
        parts(r#"{"functionCall":{"name":"f","willContinue":true},"thoughtSignature":"s"}"#);
    let end = parts(r#"{"functionCall":{}}"#);
    let payloads = [
        &begin,
        &fragment("$.a", "x", true),
        &fragment("$.a", "y", true),
        &end,
        &end,
        &begin,
        &fragment("$.b", "", false),
    ];
    let all: Vec<&str> = payloads.into_iter().map(String::as_str).collect();
    let first = ["0: gemini-call-r-0 f", "0+{\"a\":\"xy\"}", "0.s"];
    let second = ["1: gemini-call-r-1 f", "1+{\"b\":\"\"}", "1.s"];
    assert_eq!(
        decode(&[&all[..], &[&finish("STOP")]].concat()),
        [&first[..], &second, &["ToolCalls"]].concat()
    );
    for (reason, end) in [("MAX_TOKENS", "Length"), ("STOP", "Protocol")] {
        assert_eq!(decode(&[&all[..2], &[&finish(reason)]].concat()).last().unwrap(), end);
    }
}

#[test]
fn only_the_end_of_the_stream_ends_a_reply() {
    let (a, b) = (parts(r#"{"text":"a"}"#), parts(r#"{"text":"b"}"#));
    let stop = finish("STOP");
    assert_eq!(decode(&[&a, &stop, &b, &stop]), ["0: Text", "0+a", "0+b", "0.", "Stop"]);
    assert_eq!(decode(&[&a]).last().unwrap(), "Network");
    for (reason, end) in [
        ("MAX_TOKENS", "Length"),
        ("SAFETY", "ContentFilter"),
        ("NEW", "Stop"),
        ("MALFORMED_FUNCTION_CALL", "Malformed"),
        ("UNEXPECTED_TOOL_CALL", "Malformed"),
    ] {
        assert_eq!(decode(&[&a, &finish(reason)]).last().unwrap(), end, "{reason}");
    }
}

#[test]
fn a_reply_may_be_complete_after_a_finish_reason() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    let payloads = [parts(r#"{"text":"a"}"#), finish("STOP"), parts(r#"{"text":"b"}"#)];
    let progress: Vec<Progress> =
        payloads.iter().map(|payload| decoder.decode(payload, &mut out)).collect();
    assert_eq!(progress, [Progress::Open, Progress::Complete, Progress::Complete]);
}

#[test]
fn a_reply_that_says_nothing_is_none() {
    assert_eq!(decode(&[&finish("STOP")]), ["Protocol"]);
    assert_eq!(decode(&[&parts(r#"{"text":""}"#), &finish("STOP")]), ["Protocol"]);
    let thought = parts(r#"{"text":"hm","thought":true}"#);
    assert_eq!(decode(&[&thought, &finish("STOP")]).last().unwrap(), "Protocol");
    assert_eq!(decode(&[&thought, &finish("MAX_TOKENS")]).last().unwrap(), "Length");
    assert_eq!(decode(&[r#"{"promptFeedback":{"blockReason":"OTHER"}}"#]), ["ContentFiltered"]);
}

#[test]
fn an_error_is_one_in_every_shape() {
    let error = r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#;
    let list = format!("[{error}\n]");
    for error in [error, &list] {
        assert_eq!(
            decode(&[&parts(r#"{"text":"a"}"#), &finish("STOP"), error]).last().unwrap(),
            "Overloaded"
        );
    }
    assert_eq!(decode(&["<html>"]), ["Protocol"]);
    assert_eq!(decode(&["[1, 2"]), ["Protocol"]);
}

#[test]
fn tokens_are_counted_as_ours() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    let usage = |usage: &str| format!(r#"{{"usageMetadata":{{{usage}}}}}"#);
    for payload in [
        &parts(r#"{"text":"a"}"#),
        &usage(r#""promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":1"#),
        &usage(r#""candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":30"#),
        &finish("STOP"),
    ] {
        decoder.decode(payload, &mut out);
    }
    decoder.finish(&mut out);
    let usage = Usage::new(70, 12).cache(60, 0).reasoning(7);
    assert_eq!(out.pop_back(), Some(ModelEvent::Done { stop: StopReason::Stop, usage }));
}

#[test]
fn usage_is_reported_before_the_end() {
    let (mut decoder, mut out) = (Decoder::new(Endpoint::default()), Events::new());
    let usage = |prompt: u32, output: u32| {
        format!(
            r#"{{"usageMetadata":{{"promptTokenCount":{prompt},"candidatesTokenCount":{output}}}}}"#
        )
    };
    for payload in [&usage(5, 1), &parts(r#"{"text":"a"}"#), &usage(5, 2), "<html>"] {
        decoder.decode(payload, &mut out);
    }
    let used: Vec<Usage> = out
        .iter()
        .filter_map(|event| if let ModelEvent::Usage(usage) = event { Some(*usage) } else { None })
        .collect();
    assert_eq!(used, [Usage::new(5, 1), Usage::new(5, 2)]);
    assert!(matches!(out.back(), Some(ModelEvent::Error(_))), "{out:?}");
}

#[test]
fn a_reply_that_ends_for_another_reason_is_not_complete() {
    let ended = |reason: &str| {
        format!(r#"{{"candidates":[{{"finishReason":"{reason}","finishMessage":"Not now."}}]}}"#)
    };
    let text = parts(r#"{"text":"a"}"#);
    for reason in ["OTHER", "ESCALATION", "MISSING_THOUGHT_SIGNATURE"] {
        let events = decode(&[&text, &ended(reason)]);
        let note = format!("[The provider refused the reply or cut it off: {reason}: Not now]");
        assert_eq!(events[4], format!("1+\n\n{note}"), "{events:?}");
        assert_eq!(events.last().unwrap(), "ContentFilter");
        assert_eq!(decode(&[&ended(reason)]), ["InvalidRequest"], "it is not retried");
    }
    let call = parts(r#"{"functionCall":{"name":"f","args":{}}}"#);
    assert_eq!(decode(&[&call, &ended("OTHER")]).last().unwrap(), "ToolCalls");
    let filtered = decode(&[&text, &ended("SAFETY")]);
    assert_eq!(filtered[4], "1+\n\n[The provider refused the reply or cut it off: Not now.]");
    assert_eq!(decode(&[&text, &finish("STOP")]).last().unwrap(), "Stop");
}
