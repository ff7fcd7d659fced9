//! Patterns that return to an earlier point of the conversation.

use loopwright_core::testing::{CrashReport, Replay, ScriptedSession, crash_at_every_append};
use loopwright_patterns::conformance;

use crate::kit::*;

/// A pattern that tries several branches from the state of the conversation when the request came.
/// Each branch starts without the earlier ones, and the last one is the result.
#[derive(Clone)]
struct Branches(u32);

#[async_trait::async_trait]
impl BehaviorPattern for Branches {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let (mut branch, root): (u32, MessageId) =
            step.state("branch").unwrap_or((1, step.checkpoint()));
        loop {
            step.set_state("branch", (branch, root))?;
            step.take_steering().await?;
            let reply = step.ask().await?.or_end()?;
            let batch = step.call_tools(&reply).await?.or_end()?;
            if batch.wants_reply() || step.has_steering() {
                continue;
            }
            if branch < self.0 && batch != BatchOutcome::Terminated {
                branch += 1;
                step.set_state("branch", (branch, root))?;
                step.rewind(root).await?;
            } else if !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
    }
}

fn texts<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.text()).collect()
}

/// Returns the texts of the messages of the next request.
fn context(harness: &Harness) -> Vec<String> {
    texts(&*SessionLog::of(&harness.memory.entries()).context())
}

fn rewinds(entries: &[LogEntry]) -> usize {
    entries.iter().filter(|entry| matches!(entry, LogEntry::Rewound { .. })).count()
}

/// C166: Requests after a rewind contain no reply, call or result that it removed. The history and
/// the events keep them. The outcome comes from the rest.
#[tokio::test(start_paused = true)]
async fn a_rewind_removes_messages_from_requests_and_from_nowhere_else() {
    let replies = [calls(&["read"]), Script::text("one"), Script::text("two")];
    let tool = TestTool::new("read").answers("3 lines");
    let mut harness = Harness::new(Branches(2), replies, |agent| agent.tool(tool)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "two");
    assert_eq!(sent(&harness, 1), ["go", "", "3 lines"]);
    assert_eq!(sent(&harness, 2), ["go"]);
    assert_eq!(context(&harness), ["go", "two"]);
    let history = ["U:go", "A:[a]/ToolCalls", "R:a/Ok", "A:one/Stop", "A:two/Stop"];
    assert_eq!(harness.transcript().await, history);
    check_emitted(&mut harness);
    harness.check().await;
    let harness = harness.restart().await;
    assert_eq!(harness.transcript().await, history);
    assert_eq!(context(&harness), ["go", "two"]);
}

/// C166: The rewind is in one append with the value that records it. It is only written if there is
/// something to remove.
#[tokio::test(start_paused = true)]
async fn a_rewind_that_removes_nothing_is_not_written() {
    let idle = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let root = step.checkpoint();
            step.rewind(root).await?;
            step.rewind(MessageId::default()).await?;
            step.remember(UserMessage::from("note")).await?;
            step.set_state("n", 1)?;
            step.rewind(root).await?;
            assert_eq!(step.checkpoint(), root);
            step.rewind(root).await?;
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(idle, [], |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    let entries = harness.memory.entries();
    assert_eq!(rewinds(&entries), 1);
    let at = entries.iter().position(|e| matches!(e, LogEntry::Rewound { .. })).unwrap();
    assert!(matches!(entries[at - 1], LogEntry::State { .. }));
    assert_eq!(context(&harness), ["go"]);
}

/// C166: `ask` after a rewind answers the rest of the conversation. If that ends with the user, it
/// sends a request. Otherwise it returns the reply at the end. The same words as in a removed
/// branch are a new request.
#[tokio::test(start_paused = true)]
async fn requests_after_a_rewind_answer_what_is_left() {
    let replies = ["draft", "worse", "better"].map(Script::text);
    let refining = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let start = step.checkpoint();
            step.ask().await?;
            let draft = step.checkpoint();
            let refine = || Ask::new().also(UserMessage::from("Refine."));
            assert_eq!(step.ask_with(refine()).await?.text(), "worse");
            step.rewind(draft).await?;
            assert!(step.is_answered());
            assert_eq!(step.ask().await?.text(), "draft", "no request is sent");
            assert_eq!(step.ask_with(refine()).await?.text(), "better");
            step.rewind(start).await?;
            assert!(!step.is_answered());
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(refining, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(sent(&harness, 2), ["go", "draft", "Refine."]);
    assert_eq!(context(&harness), ["go"]);
}

/// C4: A reply is only returned for the request that it answers, not for a request with its own
/// words that was in flight when the process died. (The draft's number, which is in the state,
/// changes if it is requested once more.)
#[tokio::test(start_paused = true)]
async fn a_lost_request_does_not_take_the_reply_before_it() {
    let asks = || {
        does(|step| {
            Box::pin(async {
                step.take_input().await?;
                if step.state::<MessageId>("draft").is_none() {
                    step.ask().await?;
                    step.set_state("draft", step.checkpoint())?;
                }
                let refine = Ask::new().also(UserMessage::from("Refine."));
                step.ask_with(refine).await?.finish()
            })
        })
    };
    let agent = |model| GenericAgent::builder(model, asks());
    let scenario = ScriptedSession::new(["draft", "final"].map(Script::text)).request("go");
    let report = crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.requests, report.compared), (2, report.appends), "{report}");
}

/// C167: Messages that the user sent for the request stay, and the next branch answers them.
/// Messages of earlier requests are removed with the replies to them.
#[tokio::test(start_paused = true)]
async fn messages_of_the_request_stay() {
    let replies = [slow(1, ms(10)), slow(2, ms(10)), slow(3, ms(10))];
    let mut harness = Harness::new(Branches(2), replies, |agent| agent).await;
    send(&harness, "go").await;
    harness.until(|event| is_text_delta(event, "w0 ")).await;
    harness.handle.steer("in metres").await.unwrap();
    harness.run_end().await;
    assert_eq!(sent(&harness, 1), ["go", "w0 ", "in metres"]);
    assert_eq!(sent(&harness, 2), ["go", "in metres"]);

    let forgetting = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.rewind(MessageId::default()).await?;
            step.ask().await?.finish()
        })
    });
    let replies = ["one", "two"].map(Script::text);
    let harness = Harness::new(forgetting, replies, |agent| agent).await;
    harness.handle.prompt("first").await.unwrap();
    assert_eq!(harness.handle.prompt("second").await.unwrap().text, "two");
    assert_eq!(sent(&harness, 1), ["second"]);
    assert_eq!(context(&harness), ["second", "two"]);
    assert_eq!(harness.transcript().await.len(), 4);
}

/// C167: A rewind fails while a batch is open, to a message that the conversation does not contain,
/// and between calls and their results.
#[tokio::test(start_paused = true)]
async fn a_rewind_to_nowhere_or_between_calls_and_results_fails() {
    let asking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let why = |result: Result<(), StepError>| result.unwrap_err().to_string();
            let start = step.checkpoint();
            let reply = step.ask().await?;
            let calls = step.checkpoint();
            assert_eq!(step.rewind(start).await, Err(StepError::BatchOpen(2)));
            step.call_tools(&reply).await?;
            let results = step.checkpoint();
            let first = MessageId(results.0 - 1);
            for point in [calls, first] {
                assert!(why(step.rewind(point).await).contains("the results of its calls"));
            }
            let unknown = MessageId(99);
            let expected =
                "the conversation cannot be rewound to m99: it is no message of the conversation";
            assert_eq!(why(step.rewind(unknown).await), expected);
            step.rewind(results).await?;
            step.rewind(start).await?;
            assert!(why(step.rewind(results).await).contains("no message of the conversation"));
            Ok(StepEnd::Done)
        })
    });
    let tool = TestTool::new("read");
    let harness = Harness::new(asking, [calls(&["read", "read"])], |agent| agent.tool(tool)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(rewinds(&harness.memory.entries()), 1);
    assert_eq!(context(&harness), ["go"]);
}

/// C167: Records under a key are found after a rewind, and are not made or paid for twice.
#[tokio::test(start_paused = true)]
async fn keys_find_what_was_recorded_in_a_branch_that_was_removed() {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let counted = pay.clone();
    let paying = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let root = step.checkpoint();
            for _ in 0..2 {
                let call = Call::new("pay", json!({})).key("pay");
                assert!(step.call(call).await?.is_some());
                let vote = Ask::detached().messages([UserMessage::from("Good?").into()]);
                assert_eq!(step.ask_with(vote.key("vote")).await?.text(), "yes");
                step.rewind(root).await?;
            }
            Ok(StepEnd::Done)
        })
    });
    let harness =
        Harness::new(paying, [Script::text("yes")], |agent| agent.tool(pay).approve_all()).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(counted.ran(), 1);
    assert_eq!(rewinds(&harness.memory.entries()), 1);
}

/// A policy that replaces the messages before the last two, if there are at least five.
struct Shorten;

impl CompactionPolicy for Shorten {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let end = context.messages.len().checked_sub(2).filter(|end| *end >= 3)?;
        Some(CompactionPlan::new(0..end))
    }

    fn finish(
        &self,
        context: &CompactionContext<'_>,
        plan: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        let replaced = &context.messages[plan.replaces.clone()];
        Replacement::new(format!("({})", texts(replaced).join("|")))
    }
}

/// Adds these messages one by one, each followed by a reply.
async fn talk(step: &mut StepContext<'_>, messages: &[&str]) -> Result<(), StepError> {
    for message in messages {
        step.remember(UserMessage::from(*message)).await?;
        step.ask().await?;
    }
    Ok(())
}

/// C168: A rewind to a point before the end of the replaced messages undoes their summaries,
/// including a summary inside another. A summary of messages before the point stays. Hooks get the
/// same conversation.
#[tokio::test(start_paused = true)]
async fn summaries_of_messages_on_both_sides_of_the_point_are_undone() {
    for (point, expected) in [
        (0, vec!["go"]),
        (1, vec!["go", "a", "1"]),
        (2, vec!["(go|a|1|b)", "2"]),
        (3, vec!["((go|a|1|b)|2|c)", "3"]),
        (4, vec!["(((go|a|1|b)|2|c)|3|d)", "4"]),
    ] {
        for hooked in [false, true] {
            let talking = does(move |step| {
                Box::pin(async move {
                    step.take_input().await?;
                    let mut points = vec![step.checkpoint()];
                    for message in ["a", "b", "c", "d", "e"] {
                        talk(step, &[message]).await?;
                        points.push(step.checkpoint());
                    }
                    step.rewind(points[point]).await?;
                    let seen = step.context().generate(&Ask::new()).await?;
                    step.emit("seen", texts(&*seen.messages)).await?;
                    Ok(StepEnd::Done)
                })
            });
            let replies = ["1", "2", "3", "4", "5"].map(Script::text);
            let options = |agent: AgentBuilder| {
                let agent = agent.compaction(Shorten);
                if hooked { agent.transform_context(async |_, messages| messages) } else { agent }
            };
            let mut harness = Harness::new(talking, replies, options).await;
            harness.handle.prompt("go").await.unwrap();
            let seen = harness.drain_events().into_iter().find_map(|e| match &e.event {
                AgentEvent::Custom { data, .. } => Some((**data).clone()),
                _ => None,
            });
            assert_eq!(seen, Some(json!(expected)), "point {point}, hooked {hooked}");
            assert_eq!(context(&harness), expected, "point {point}");
            harness.check().await;
        }
    }
}

/// C167: A user's message that a summary replaced returns when the summary is undone.
#[tokio::test(start_paused = true)]
async fn messages_of_the_user_survive_a_summary_that_is_undone() {
    let talking = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            let root = step.checkpoint();
            talk(step, &["a", "b"]).await?;
            step.wait_for(sleep(ms(10))).await?;
            step.take_steering().await?;
            step.ask().await?;
            talk(step, &["c", "d"]).await?;
            step.rewind(root).await?;
            step.ask().await?.finish()
        })
    });
    let replies = ["1", "2", "3", "4", "5", "6"].map(Script::text);
    let mut harness = Harness::new(talking, replies, |agent| agent.compaction(Shorten)).await;
    send(&harness, "go").await;
    harness
        .until(|e| matches!(e, AgentEvent::MessageEnd { message } if message.text() == "2"))
        .await;
    harness.handle.steer("in metres").await.unwrap();
    harness.run_end().await;
    assert!(sent(&harness, 4)[0].contains("in metres"), "it was summarised");
    assert_eq!(sent(&harness, 5), ["go", "in metres"]);
}

/// C167: The outcome of a run does not depend on removed replies.
#[tokio::test(start_paused = true)]
async fn a_reply_that_was_removed_is_no_outcome() {
    let replies = [Script::text("whole"), Script::text("cut").stop(StopReason::Length)];
    let trying = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.ask().await?;
            let draft = step.checkpoint();
            step.ask_with(Ask::new().also(UserMessage::from("more"))).await?;
            step.remember(CustomMessage::new("note", json!(null))).await?;
            step.rewind(draft).await?;
            assert!(step.is_answered(), "no removed custom message can be converted");
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(trying, replies, |agent| {
        agent.transform_context(async |_, messages| messages)
    })
    .await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "whole"));
}

/// C166: Forks and log checks handle rewinds.
#[tokio::test(start_paused = true)]
async fn a_fork_of_a_rewound_conversation_is_rewound() {
    let replies = ["one", "two", "three"].map(Script::text);
    let harness = Harness::new(Branches(2), replies, |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    let log = harness.memory.entries();
    let fork = SessionLog::branch(&log, None).log(log.clone());
    let mut harness = harness.restart_from(fork).await;
    assert_eq!(context(&harness), ["go", "two"]);
    harness.handle.steer("on").await.unwrap();
    harness.handle.continue_run().await.unwrap();
    assert_eq!(sent(&harness, 2)[..3], ["go", "two", "on"]);
    check_emitted(&mut harness);

    check_log(&log).unwrap();
    let at = log.iter().position(|entry| matches!(entry, LogEntry::Rewound { .. })).unwrap();
    for to in [2, 3, 77] {
        let mut broken = log.clone();
        broken[at] = LogEntry::Rewound { to: MessageId(to) };
        let is_valid = check_log(&broken).is_ok();
        let known = texts(&*SessionLog::of(&log[..at]).messages()).len() as u64;
        assert_eq!(is_valid, to <= known, "{to}");
    }
    check_log(&log[at..=at]).unwrap_err();
}

/// C89: A log with rewinds, and a steer between them, is replayed.
#[tokio::test(start_paused = true)]
async fn a_log_with_rewinds_is_replayed() {
    let branch = |n| [calls(&["read"]), slow(n, ms(10))];
    let replies = (1..4).flat_map(branch).chain([Script::text("more")]);
    let options = |agent: AgentBuilder| agent.tool(TestTool::new("read"));
    let mut harness = Harness::new(Branches(3), replies, options).await;
    send(&harness, "go").await;
    harness.until(|event| is_text_delta(event, "w0 ")).await;
    harness.handle.steer("on").await.unwrap();
    harness.run_end().await;
    let entries = harness.memory.entries();
    assert_eq!(rewinds(&entries), 2);
    for (branches, replays) in [(3, true), (2, false)] {
        let replay = Replay::from_entries(entries.clone());
        let agent = GenericAgent::builder(replay.model(), Branches(branches));
        let agent = agent.tools(replay.tools()).build().unwrap();
        assert_eq!(replay.run(&agent).await.is_ok(), replays, "{branches} branches");
    }
}

async fn crashes(pattern: Branches, scenario: ScriptedSession) -> CrashReport {
    let read = || TestTool::new("read");
    let agent =
        |model| GenericAgent::builder(model, pattern.clone()).tool(read()).compaction(Shorten);
    crash_at_every_append(agent, scenario).await.unwrap()
}

/// C166 C167 C168: After a crash at each append of a session with branches, tools, summaries and
/// steers, the result is the same, and no branch is tried twice.
#[tokio::test(start_paused = true)]
async fn a_crash_never_repeats_a_branch() {
    let branch = |n: &str| [calls(&["read"]), calls(&["read"]), Script::text(n)];
    let replies = || ["one", "two", "three"].into_iter().flat_map(branch);
    let more = || replies().chain((0..9).map(|_| Script::text("more")));
    let plain = ScriptedSession::new(replies()).request("go");
    let report = crashes(Branches(3), plain).await;
    assert_eq!((report.requests, report.compared), (9, report.appends), "{report}");

    let replied = |entry: &LogEntry| matches!(entry, LogEntry::Replied { .. });
    let steered =
        ScriptedSession::new(more()).request("go").steer("on").when(replied).request("again");
    let report = crashes(Branches(3), steered).await;
    assert!(report.compared * 3 > report.appends * 2, "{report}");
}

/// C153 C166 C167: A pattern that rewinds keeps the contract: with crashes, aborts, steers and
/// follow-ups at each append, and with limits and errors at each request.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_rewinds_passes_the_conformance_suite() {
    let report = conformance::check(|| Branches(2), conformance::scenarios()).await.unwrap();
    assert!(report.sessions > 100);
}
