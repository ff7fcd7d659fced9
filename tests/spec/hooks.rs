//! Hooks: streamed text, complete replies, calls and their results, and the content of requests.

use std::sync::Mutex;

use crate::kit::*;

/// C17: A hook receives each text part as it streams and may replace it. Events and the message
/// contain the replacement.
#[tokio::test(start_paused = true)]
async fn a_text_part_can_be_replaced_as_it_streams() {
    let shout = |_: &HookContext, part: TextPart<'_>| TextAction::Replace(part.text.to_uppercase());
    let mut harness =
        pi_with([Script::new().stream(["ab", "cd"], ms(1))], &[], |a| a.on_text_part(shout)).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:ABCD/Stop"]);
    assert_eq!(events.iter().filter(|e| is_delta(&e.event)).count(), 2, "it still streams");
}

/// C17: Text that a hook holds is passed to it again, followed by the next part. Text held at the
/// end of the block is shown.
#[tokio::test(start_paused = true)]
async fn held_text_is_passed_to_the_hook_with_the_next_part_and_shown_at_the_end() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let hold = move |_: &HookContext, part: TextPart<'_>| {
        log.lock().unwrap().push((part.text.to_owned(), part.last));
        if part.text == "one " { TextAction::Show } else { TextAction::Hold }
    };
    let mut harness = pi_with([Script::new().stream(["one ", "two ", "three"], ms(1))], &[], |a| {
        a.on_text_part(hold)
    })
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    let wanted = [("one ", false), ("two ", false), ("two three", false), ("two three", true)];
    assert_eq!(*seen.lock().unwrap(), wanted.map(|(text, last)| (text.to_owned(), last)));
    assert_eq!(events.iter().filter(|e| is_delta(&e.event)).count(), 2);
    assert_eq!(harness.transcript().await, ["U:go", "A:one two three/Stop"]);
}

/// Finds `<tool_call>{…}</tool_call>` in text, for any split into parts.
fn calls_in_text(_: &HookContext, part: TextPart<'_>) -> TextAction {
    const TAG: &str = "<tool_call>";
    let Some((before, rest)) = part.text.split_once(TAG) else {
        let may_begin = (1..TAG.len()).any(|n| part.text.ends_with(&TAG[..n]));
        return if may_begin { TextAction::Hold } else { TextAction::Show };
    };
    let Some((call, after)) = rest.split_once("</tool_call>") else {
        return TextAction::Hold;
    };
    let call: serde_json::Value = serde_json::from_str(call).unwrap();
    let call = (call["name"].as_str().unwrap().to_owned(), call["arguments"].to_string());
    TextAction::Calls { text: format!("{before}{after}"), calls: vec![call] }
}

/// C17: A hook may replace text by tool calls, regardless of the number of deltas.
#[tokio::test(start_paused = true)]
async fn text_can_become_a_tool_call_and_is_not_shown() {
    let text = r#"I look. <tool_call>{"name":"x","arguments":{"deep":{"er":[1]}}}</tool_call>"#;
    for size in 1..=text.len() {
        let deltas = text.as_bytes().chunks(size).map(|c| String::from_utf8(c.to_vec()).unwrap());
        let replies = [Script::new().stream(deltas, Duration::ZERO), Script::text("ok")];
        let tool = TestTool::new("x");
        let mut harness =
            pi_with(replies, std::slice::from_ref(&tool), |a| a.on_text_part(calls_in_text)).await;
        send(&harness, "go").await;
        let events = harness.run_end().await;
        check_events(&events).unwrap();
        assert_eq!(
            harness.transcript().await,
            ["U:go", "A:I look. [call_1]/ToolCalls", "R:call_1/Ok", "A:ok/Stop"],
            "deltas of {size} bytes"
        );
        let shown = trace(&events);
        assert!(
            !shown.contains("tool_call>")
                && shown.contains(r#"tool_execution_start call_1 x {"deep""#),
            "{shown}"
        );
        assert_eq!(tool.ran(), 1);
    }
}

fn before_end(verdict: fn(&str) -> BeforeEnd) -> impl FnOnce(AgentBuilder) -> AgentBuilder {
    move |a| a.before_end(move |_, reply| std::future::ready(verdict(&reply.text())))
}

/// C18: `Continue` continues the loop with a message, which is appended after the calls of the
/// reply. `Default` leaves the decision to the pattern.
#[tokio::test(start_paused = true)]
async fn a_hook_can_continue_the_loop_after_a_reply() {
    let verdict = |text: &str| {
        if text == "1" { BeforeEnd::Continue("more".into()) } else { BeforeEnd::Default }
    };
    let harness = pi_with([Script::text("1"), Script::text("2")], &[], before_end(verdict)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "2");
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop", "U:more", "A:2/Stop"]);

    let replies = [Script::text("1").call("a", "x", "{}"), Script::text("2")];
    let harness = pi_with(replies, &[TestTool::new("x")], before_end(verdict)).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:1[a]/ToolCalls", "R:a/Ok", "U:more", "A:2/Stop"]
    );
    harness.check().await;
}

/// C18: `End` ends the run. Calls of the reply have the status "skipped", and queued messages stay
/// queued.
#[tokio::test(start_paused = true)]
async fn a_hook_can_end_the_run_after_a_reply() {
    let tool = TestTool::new("x");
    for reply in [Script::text("1"), Script::text("1").call("a", "x", "{}")] {
        let mut harness = pi_with(
            [reply, Script::text("2")],
            std::slice::from_ref(&tool),
            before_end(|_| BeforeEnd::End),
        )
        .await;
        harness.handle.follow_up("later").await.unwrap();
        assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
        let state = harness.handle.state().await.unwrap();
        assert_eq!(
            (harness.model.requests().len(), state.follow_up_queue.len(), tool.ran()),
            (1, 1, 0)
        );
        assert!(statuses(&harness).await.iter().all(|status| *status == ResultStatus::Skipped));
        harness.check().await;
        check_emitted(&mut harness);
    }
}

/// C18: `FnHandleBeforeEnd` sees the whole text and the calls of each reply.
#[tokio::test(start_paused = true)]
async fn the_hook_before_the_end_sees_the_whole_reply() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let reply = Script::new().stream(["I ", "look"], ms(1)).call("a", "x", "{}");
    let harness = pi_with([reply, Script::text("ok")], &[TestTool::new("x")], |a| {
        a.before_end(move |_, reply| {
            let calls = reply.as_assistant().unwrap().calls().count();
            log.lock().unwrap().push((reply.text(), calls));
            async { BeforeEnd::Default }
        })
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [("I look".to_owned(), 1), ("ok".to_owned(), 0)]);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pay {
    amount: u32,
}

/// C19: Arguments that `before_tool_call` rewrites are validated. They are coerced if that is safe.
/// Otherwise the result is an error.
#[tokio::test(start_paused = true)]
async fn rewritten_arguments_are_validated() {
    let pay =
        tool_fn("pay", "Pays.", async |p: Pay, _| Ok::<_, ToolError>(format!("paid {}", p.amount)))
            .effect(Effect::ReadOnly);
    let call = |id, amount| (id, "pay", json!({"amount": amount}));
    let harness = Harness::new(
        PiPattern,
        [Script::calls([call("a", 1), call("b", 2)]), Script::text("ok")],
        |a| {
            a.tool(pay).before_tool_call(async |_, info| match info.arguments["amount"].as_u64() {
                Some(1) => BeforeToolCall::Rewrite(json!({"amount": "7"})),
                _ => BeforeToolCall::Rewrite(json!({"amount": "much"})),
            })
        },
    )
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(result_of(&harness, "a").await, "paid 7");
    let refused = result_of(&harness, "b").await;
    assert!(
        refused.contains("A hook rewrote the arguments") && refused.contains("/amount"),
        "{refused}"
    );
}

/// C19: A pending action shows the arguments that would run: after the hooks.
#[tokio::test(start_paused = true)]
async fn the_user_is_shown_the_arguments_after_the_hooks() {
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let harness = pi_with([calls(&["ask"])], &[ask], |a| {
        a.before_tool_call(async |_, _| BeforeToolCall::Rewrite(json!({"safe": true})))
    })
    .await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    assert_eq!(*harness.pending().await[0].arguments, json!({"safe": true}));
}

/// C19: `around_tool_call` may replace content, details and the error flag of a result.
#[tokio::test(start_paused = true)]
async fn the_hook_around_a_call_can_replace_all_of_its_result() {
    let mut harness = pi_with([calls(&["x"]), Script::text("ok")], &[TestTool::new("x")], |a| {
        a.around_tool_call(|_, info, next| {
            Box::pin(async move {
                let result = next.run().await;
                assert_eq!((&*info.call, result.status), ("a", ResultStatus::Ok));
                let (call, content) = (info.call.clone(), vec![Content::text("no")]);
                ToolResult::new(call, result.name, ResultStatus::Error, content)
                    .details(Arc::new(json!({"secret": 1})))
            })
        })
    })
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    let failed =
        |e: &Arc<Envelope>| matches!(e.event, AgentEvent::ToolExecutionEnd { is_error: true, .. });
    assert!(events.iter().any(failed));
    let state = harness.handle.state().await.unwrap();
    let result = state.messages[2].as_tool_result().unwrap();
    assert_eq!((result.text().as_str(), result.status), ("no", ResultStatus::Error));
    assert_eq!(result.details.as_deref(), Some(&json!({"secret": 1})));
}

/// C32: `transform_context` returns the conversation of a request. The history is not changed, and
/// its custom messages are not part of the request.
#[tokio::test(start_paused = true)]
async fn a_transformed_request_does_not_change_the_history() {
    let noting = does(|step| {
        Box::pin(async {
            step.take_input().await?;
            step.remember(CustomMessage::new("note", json!(1))).await?;
            PiPattern.next_step(step).await
        })
    });
    let harness = Harness::new(noting, [Script::text("ok")], |a| {
        a.transform_context(async |_, mut messages| {
            messages.insert(
                0,
                Arc::new(Message::new(MessageId(0), UserMessage::from("It is Monday."))),
            );
            messages
        })
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(sent(&harness, 0), ["It is Monday.", "go"]);
    assert_eq!(harness.transcript().await, ["U:go", "C:note", "A:ok/Stop"]);
}

/// C41: a call of a tool that was not offered is an error result, although the agent has the tool.
#[tokio::test(start_paused = true)]
async fn a_tool_that_was_not_offered_does_not_run() {
    let hidden = TestTool::new("hidden");
    let tools = [hidden.clone(), TestTool::new("shown")];
    let harness = pi_with([calls(&["hidden", "shown"]), Script::text("ok")], &tools, |a| {
        a.offers_tool(|_, _, spec| &*spec.name != "hidden")
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(statuses(&harness).await, [ResultStatus::Error, ResultStatus::Ok]);
    assert!(result_of(&harness, "a").await.contains("not offered"));
    assert_eq!(hidden.ran(), 0);
}

/// C41 C53: the offered tools are logged, so a hidden tool does not run after a restart.
#[tokio::test(start_paused = true)]
async fn a_tool_that_was_not_offered_does_not_run_after_a_crash() {
    let hidden = TestTool::new("hidden");
    let tools = [hidden.clone(), TestTool::new("shown")];
    let hide = |a: AgentBuilder| a.offers_tool(|_, _, spec| &*spec.name != "hidden");
    let harness = pi_with([calls(&["hidden"]), Script::text("ok")], &tools, hide).await;
    harness.handle.prompt("go").await.unwrap();
    let log = harness.memory.entries();
    let replied = log.iter().position(|item| matches!(item, LogEntry::Replied { .. })).unwrap();
    let harness = pi_with([Script::text("ok")], &tools, hide)
        .await
        .restart_from(log[..=replied].to_vec())
        .await;
    harness.handle.continue_run().await.unwrap();
    assert!(result_of(&harness, "a").await.contains("not offered"));
    assert_eq!(hidden.ran(), 0);
}

/// C41: `offers_tool` chooses the tools of each request, and receives the number of the turn.
#[tokio::test(start_paused = true)]
async fn each_request_offers_the_tools_that_the_hook_chooses() {
    let tools = [TestTool::new("t1"), TestTool::new("t2")];
    let harness = pi_with([calls(&["t1"]), calls(&["t2"]), Script::text("ok")], &tools, |a| {
        a.offers_tool(|_, request, tool| *tool.name == *format!("t{}", request.turn))
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!([offered(&harness, 0), offered(&harness, 1)], [["t1"], ["t2"]]);
    assert_eq!(offered(&harness, 2).len(), 0);
}

struct User(&'static str);

/// C6: Predicates, hooks and the pattern can read the host's values. An input's values take
/// precedence over the session's.
#[tokio::test(start_paused = true)]
async fn predicates_and_hooks_read_the_hosts_values() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let seen = seen.clone();
        move |hook: &'static str, user: Option<&User>| {
            seen.lock().unwrap().push((hook, user.map_or("-", |u| u.0)))
        }
    };
    let (n1, n2, n3, n4, n5, n6, n7) =
        (note.clone(), note.clone(), note.clone(), note.clone(), note.clone(), note.clone(), note);
    let reads = TestTool::new("reads").spec(move |spec| {
        spec.approval(Approval::when(move |_, values| {
            n1("approval", values.get());
            false
        }))
    });
    let pattern = does(move |step| {
        n7("pattern", step.get());
        Box::pin(PiPattern.next_step(step))
    });
    let model =
        ScriptedModel::new([calls(&["reads", "writes"]), Script::text("ok"), Script::text("ok")]);
    let agent = GenericAgent::builder(model, pattern)
        .tool(reads)
        .tool(TestTool::new("writes").effect(Effect::AtMostOnce))
        .approve_when(move |_, _, values| {
            n2("auto", values.get());
            true
        })
        .before_tool_call(move |cx, _| {
            n3("before", cx.extensions.get());
            async { BeforeToolCall::Proceed }
        })
        .around_tool_call(move |cx, _, next| {
            n4("around", cx.extensions.get());
            Box::pin(async move { next.run().await })
        })
        .before_end(move |cx, _| {
            n5("end", cx.extensions.get());
            async { BeforeEnd::Default }
        })
        .offers_tool(move |cx, _, _| {
            n6("offers", cx.extensions.get());
            true
        })
        .build()
        .unwrap();
    let (handle, _events) = agent.run(RunContext::new().with(User("session"))).await.unwrap();
    handle.prompt(Prompt::from("go").with(User("input"))).await.unwrap();
    let first: Vec<_> = std::mem::take(&mut *seen.lock().unwrap());
    for hook in ["approval", "auto", "before", "around", "end", "offers", "pattern"] {
        assert!(first.contains(&(hook, "input")), "{hook}: {first:?}");
    }
    assert!(first.iter().all(|(_, user)| *user == "input"), "{first:?}");
    handle.prompt("go").await.unwrap();
    assert!(
        seen.lock().unwrap().iter().all(|(_, user)| *user == "session"),
        "the input's values end with its run"
    );
}

/// A guard that blocks one tool and counts the calls that it sees.
#[derive(Clone, Default)]
struct Guard {
    blocks: &'static str,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

#[async_trait::async_trait]
impl Hooks for Guard {
    async fn before_tool_call(&self, cx: &HookContext, call: &ToolCallInfo) -> BeforeToolCall {
        let tool = call.tool.name.to_string();
        self.seen.lock().unwrap().push((cx.session_id.to_string(), tool.clone()));
        match tool == self.blocks {
            true => BeforeToolCall::Block(format!("guard against {tool}")),
            false => BeforeToolCall::Proceed,
        }
    }
}

/// C20
#[tokio::test(start_paused = true)]
async fn of_two_guards_the_first_that_blocks_decides_and_the_tool_does_not_run() {
    let tools = [TestTool::new("x"), TestTool::new("y")];
    let first = Guard { blocks: "x", ..Guard::default() };
    let second = Guard { blocks: "none", ..Guard::default() };
    let (a, b) = (first.clone(), second.clone());
    let replies = [calls(&["x", "y"]), Script::text("ok")];
    let mut harness = pi_with(replies, &tools, |agent| agent.hook(a).hook(b)).await;
    send(&harness, "go").await;
    harness.run_end().await;
    assert_eq!((tools[0].ran(), tools[1].ran()), (0, 1));
    assert!(result_of(&harness, "a").await.contains("guard against x"));
    let call = |tool: &str| ("s".to_owned(), tool.to_owned());
    assert_eq!(*first.seen.lock().unwrap(), [call("x"), call("y")]);
    assert_eq!(*second.seen.lock().unwrap(), [call("y")], "a blocked call is not passed on");
    harness.check().await;
}

fn add_one(info: &ToolCallInfo) -> BeforeToolCall {
    BeforeToolCall::Rewrite(json!({"n": info.arguments["n"].as_i64().unwrap() + 1}))
}

/// C20
#[tokio::test(start_paused = true)]
async fn closures_add_layers_too_and_rewrites_chain() {
    let tool = TestTool::new("x");
    let replies = [Script::calls([("a", "x", json!({"n": 1}))]), Script::text("ok")];
    let mut harness = pi_with(replies, std::slice::from_ref(&tool), |agent| {
        agent
            .before_tool_call(async |_, info| add_one(&info))
            .before_tool_call(async |_, info| add_one(&info))
            .on_text_part(|_, part| TextAction::Replace(format!("{}!", part.text)))
            .on_text_part(|_, part| TextAction::Replace(format!("<{}>", part.text)))
    })
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    let started = events.iter().find_map(|e| match &e.event {
        AgentEvent::ToolExecutionStart { arguments, .. } => Some(arguments["n"].clone()),
        _ => None,
    });
    assert_eq!(started, Some(json!(3)));
    assert!(harness.transcript().await.last().unwrap().starts_with("A:<ok!>"));
}

/// C20
#[tokio::test(start_paused = true)]
async fn the_first_layer_that_ends_the_run_decides_and_messages_of_others_are_not_sent() {
    let replies = [Script::text("1"), Script::text("2")];
    let mut harness = pi_with(replies, &[], |agent| {
        agent
            .before_end(async |_, _| BeforeEnd::Continue("more".into()))
            .before_end(async |_, _| BeforeEnd::End)
    })
    .await;
    send(&harness, "go").await;
    harness.run_end().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop"]);
}

/// A hook that collects the announced actions.
#[derive(Clone, Default)]
struct Announced(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Hooks for Announced {
    async fn on_action(&self, cx: &HookContext, action: &Arc<ExternalAction>) {
        self.0.lock().unwrap().push(format!("{}/{}", cx.session_id, action.call));
    }
}

/// C21
#[tokio::test(start_paused = true)]
async fn a_hook_receives_each_pending_action_once() {
    let tools = ["x", "y"].map(|name| TestTool::new(name).effect(Effect::AtMostOnce));
    let announced = Announced::default();
    let hook = announced.clone();
    let replies = [calls(&["x", "y"]), Script::text("ok")];
    let mut harness = pi_with(replies, &tools, |agent| agent.hook(hook)).await;
    send(&harness, "go").await;
    harness.run_end().await;
    assert_eq!(*announced.0.lock().unwrap(), ["s/a", "s/b"]);
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.run_end().await;
    assert_eq!(announced.0.lock().unwrap().len(), 2, "an action is announced once");
}
