//! Replies that the user cut off, as the model sees them.

use crate::kit::*;

/// C44: the next request has the aborted reply and a note that it was cut off. Its partial calls
/// and unsigned thinking are not sent. `Continue` requests a reply too.
#[tokio::test(start_paused = true)]
async fn the_model_sees_an_aborted_reply_and_that_it_is_incomplete() {
    let note = "[The reply above was stopped; it is incomplete.]";
    let cut = || Script::new().think("hm", None).say("half").call("a", "x", "{").hang();
    let replies = [cut(), cut(), Script::text("ok"), Script::text("more")];
    let mut harness = pi(replies, &[TestTool::new("x")]).await;
    for input in [InputEvent::UserRequest("go".into()), InputEvent::Continue(None)] {
        harness.handle.send(input).await.unwrap();
        harness.until(|event| is_text_delta(event, "half")).await;
        harness.handle.abort().await.unwrap();
        assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    }
    harness.handle.prompt("again").await.unwrap();
    let image = Content::image("image/png", "AAAA");
    harness.handle.prompt(Prompt::from(UserMessage::new(vec![image]))).await.unwrap();
    let log = ["U:go", "A:half/Aborted", "A:half/Aborted", "U:again", "A:ok/Stop"];
    assert_eq!(harness.transcript().await[..5], log, "the log has no notes");
    let sent = |n: usize| -> Vec<String> {
        harness.model.requests()[n].messages.iter().map(|message| message.text()).collect()
    };
    let noted = format!("{note}\n\nagain");
    assert_eq!(sent(1), ["go", "half", note]);
    assert_eq!(sent(2), ["go", "half", note, "half", &noted]);
    assert_eq!(sent(3)[..5], sent(2), "what was sent stays as it was");
    harness.check().await;
}

/// C44: an aborted reply without text leaves nothing for the model.
#[tokio::test(start_paused = true)]
async fn an_aborted_reply_without_text_is_not_sent() {
    let cut = Script::new().think("signed", Some("sig")).call("a", "x", "{}").hang();
    let mut harness = pi([cut, Script::text("ok")], &[TestTool::new("x")]).await;
    send(&harness, "go").await;
    harness
        .until(|e| {
            matches!(e, AgentEvent::MessageUpdate { update: Update::ToolCallStart { .. }, .. })
        })
        .await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.handle.prompt("again").await.unwrap();
    let sent: Vec<String> = harness.model.requests()[1].messages.iter().map(|m| m.text()).collect();
    assert_eq!(sent, ["go", "again"]);
    harness.check().await;
}

/// C44: an aborted reply with calls, as another program may have logged one, is in no request,
/// because its calls may be cut off.
#[test]
fn an_aborted_reply_with_calls_is_not_for_the_model() {
    let text = || ContentPart::Text { text: "half".into(), signature: None };
    let call = || ContentPart::ToolCall(ToolCall::new("a", "x", "{"));
    for (parts, stop, expected) in [
        (vec![text()], StopReason::Aborted, true),
        (vec![text(), call()], StopReason::Aborted, false),
        (vec![text()], StopReason::Error, false),
        (vec![text(), call()], StopReason::ToolCalls, true),
    ] {
        let reply = AssistantMessage::new(parts).stop(stop);
        assert_eq!(Message::new(MessageId(1), reply).is_for_model(), expected, "{stop:?}");
    }
}

/// C49: a run whose last reply was cut off at the length limit, filtered or empty ends as
/// `incomplete`, live and when the log is read. A later run is not affected.
#[tokio::test(start_paused = true)]
async fn a_run_whose_last_reply_is_incomplete_says_so() {
    let call = || Script::new().call("a", "x", "{}");
    for (reply, expected) in [
        (Script::text("half").stop(StopReason::Length), Some(IncompleteReply::Length)),
        (
            Script::text("half").stop(StopReason::ContentFilter),
            Some(IncompleteReply::ContentFilter),
        ),
        (Script::new(), Some(IncompleteReply::Empty)),
        (Script::new().think("hm", None).say(" \n"), Some(IncompleteReply::Empty)),
        (Script::new().stop(StopReason::Length), Some(IncompleteReply::Length)),
        (Script::text("whole"), None),
    ] {
        // Incomplete replies before the last one do not count.
        let first = call().stop(StopReason::Length);
        let replies = [first, reply, Script::text("whole")];
        let mut harness = pi(replies, &[TestTool::new("x")]).await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        let end = if expected.is_some() { RunStatus::Incomplete } else { RunStatus::Done };
        assert_eq!((outcome.end, outcome.incomplete), (end, expected));
        let read = SessionLog::events("s", &harness.memory.entries());
        let ends = read.into_iter().filter_map(|event| match event.event {
            AgentEvent::AgentEnd(outcome) => Some((outcome.end, outcome.incomplete)),
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [(end, expected)]);
        let outcome = harness.handle.prompt("go on").await.unwrap();
        assert_eq!((outcome.end, outcome.incomplete), (RunStatus::Done, None));
        harness.check().await;
        check_emitted(&mut harness);
    }
}

/// C16 C49: an answer that matches the output schema is complete.
#[tokio::test(start_paused = true)]
async fn a_typed_answer_is_whole() {
    let schema = OutputSchema::new("n", json!({ "type": "integer" }));
    let reply = Script::text("12").stop(StopReason::Length);
    let harness = pi_with([reply], &[], |agent| agent.output_schema(schema)).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, outcome.output()), (RunStatus::Done, Some(12)));
}
