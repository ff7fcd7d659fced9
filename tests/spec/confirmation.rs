//! External actions: approvals, decisions, and other messages while actions are pending.

use crate::kit::*;

fn ask(name: &str) -> TestTool {
    TestTool::new(name).effect(Effect::AtMostOnce)
}

/// C26 C27 C28 C29: calls without approval run, the others wait. Single decisions are kept. The
/// next request waits for the batch.
#[tokio::test(start_paused = true)]
async fn of_two_decisions_on_one_action_the_first_wins_and_single_decisions_are_kept() {
    let (a, b, read) = (ask("ask_a"), ask("ask_b"), TestTool::new("read").takes(ms(5)));
    let mut harness = pi(
        [calls(&["ask_a", "read", "ask_b"]), Script::text("ok")],
        &[a.clone(), b.clone(), read.clone()],
    )
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    assert_eq!(end_of(&events), RunStatus::AwaitingAction);
    check_events(&events).unwrap();
    let order: Vec<&str> = events
        .iter()
        .filter_map(|e| match &e.event {
            AgentEvent::ToolExecutionEnd { .. } => Some("end"),
            AgentEvent::ExternalAction(_) => Some("action"),
            _ => None,
        })
        .collect();
    assert_eq!(order, ["end", "action", "action"], "auto-calls first, then the questions");
    let open = harness.pending().await;
    assert_eq!(open.iter().map(|o| &*o.call).collect::<Vec<_>>(), ["a", "c"]);
    let h = harness.handle.clone();
    let digest = |i: usize| open[i].digest.clone();
    assert_eq!(
        h.send(ActionResult::new("a", "0000", Decision::Approve)).await,
        Err(InputError::DigestDiffers("a".into()))
    );
    assert_eq!(
        h.send(ActionResult::new("b", digest(0), Decision::Approve)).await,
        Err(InputError::NotPending("b".into()))
    );
    let (one, two) = tokio::join!(
        h.send(ActionResult::new("a", digest(0), Decision::Approve)),
        h.send(ActionResult::new("a", digest(0), Decision::Deny("no".into())))
    );
    assert!(one.is_ok());
    assert_eq!(two, Err(InputError::NotPending("a".into())));
    assert_eq!(end_of(&harness.run_end().await), RunStatus::AwaitingAction);
    assert_eq!(
        (a.ran(), b.ran(), harness.model.requests().len()),
        (1, 0, 1),
        "the model waits for the batch"
    );
    h.send(ActionResult::new("c", digest(1), Decision::Approve)).await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!((a.ran(), b.ran(), read.ran(), harness.model.requests().len()), (1, 1, 1, 2));
    assert_eq!(harness.transcript().await[2..5], ["R:a/Ok", "R:b/Ok", "R:c/Ok"]);
    harness.check().await;
}

/// C28 C478: a decision denies with a reason, provides a result, or edits the arguments, which are
/// validated. It can name its author.
#[tokio::test(start_paused = true)]
async fn a_decision_can_deny_edit_or_provide_the_result() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Pay {
        amount: u32,
    }
    let pay =
        tool_fn("pay", "Pays.", async |p: Pay, _| Ok::<_, ToolError>(format!("paid {}", p.amount)));
    let call = |id| (id, "pay", json!({"amount": "100"}));
    let mut harness = Harness::new(
        PiPattern,
        [Script::calls([call("a"), call("b"), call("c")]), Script::text("ok")],
        |a| a.tool(pay),
    )
    .await;
    send(&harness, "go").await;
    harness.run_end().await;
    let open = harness.pending().await;
    assert_eq!(
        *open[0].arguments,
        json!({"amount": 100}),
        "what is shown is what would run: after coercion"
    );
    let h = &harness.handle;
    let bad = h
        .send(ActionResult::new(
            "a",
            open[0].digest.clone(),
            Decision::ApproveWith(json!({"amount": "much"})),
        ))
        .await;
    assert!(
        matches!(&bad, Err(InputError::BadArguments(why)) if why.contains("/amount")),
        "{bad:?}"
    );
    assert!(matches!(
        h.send(ActionResult::new(
            "a",
            open[0].digest.clone(),
            Decision::Provide(Provided::Input(json!(1)))
        ))
        .await,
        Err(InputError::BadDecision(_))
    ));
    h.send(ActionResult::new(
        "a",
        open[0].digest.clone(),
        Decision::ApproveWith(json!({"amount": 5})),
    ))
    .await
    .unwrap();
    h.send(ActionResult::new(
        "b",
        open[1].digest.clone(),
        Decision::Provide(Provided::Result(ToolOutput::text("paid by hand"))),
    ))
    .await
    .unwrap();
    let deny =
        ActionResult::new("c", open[2].digest.clone(), Decision::Deny("too much".into())).by("Ann");
    h.send(InputEvent::ExternalActionResult(deny)).await.unwrap();
    h.wait_for_idle().await;
    let edited = "paid 5\nThe user changed arguments of this call before it ran: {\"amount\":5}";
    assert_eq!(result_of(&harness, "a").await, edited);
    assert_eq!(result_of(&harness, "b").await, "paid by hand");
    assert_eq!(result_of(&harness, "c").await, "Denied by Ann: too much");
    assert_eq!(
        statuses(&harness).await,
        [ResultStatus::Ok, ResultStatus::Ok, ResultStatus::Denied]
    );
    let emitted = harness.drain_events();
    let ends =
        emitted.iter().filter(|e| matches!(e.event, AgentEvent::ExternalActionEnd { .. })).count();
    assert_eq!(ends, 3);
    harness.check().await;
}

/// C28: edited arguments pass through the hooks, which can block the call.
#[tokio::test(start_paused = true)]
async fn edited_arguments_pass_through_the_hooks() {
    let guard = |_, info: ToolCallInfo| {
        let is_forbidden = info.arguments["path"] == "/etc/passwd";
        std::future::ready(match is_forbidden {
            true => BeforeToolCall::Block("Not this file.".into()),
            false => BeforeToolCall::Proceed,
        })
    };
    for (edited, ran) in [("/etc/passwd", 0), ("/etc/motd", 1)] {
        let write = ask("write");
        let call = Script::calls([("a", "write", json!({ "path": "notes" }))]);
        let mut harness = Harness::new(PiPattern, [call, Script::text("ok")], |agent| {
            agent.tool(write.clone()).before_tool_call(guard)
        })
        .await;
        send(&harness, "go").await;
        harness.run_end().await;
        let digest = harness.pending().await.remove(0).digest;
        let decision = Decision::ApproveWith(json!({ "path": edited }));
        harness.handle.send(ActionResult::new("a", digest, decision)).await.unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(write.ran(), ran, "{edited}");
        let status = if ran == 0 { ResultStatus::Denied } else { ResultStatus::Ok };
        assert_eq!(statuses(&harness).await, [status]);
        harness.check().await;
    }
}

/// C28: a decision that would run a tool which the agent lacks is refused. The call can still be
/// decided by another agent, denied, or given a result.
#[tokio::test(start_paused = true)]
async fn a_decision_without_the_tool_changes_nothing() {
    let call = Script::calls([("a", "pay", json!({}))]);
    let mut harness = pi([call], &[ask("pay")]).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let digest = harness.pending().await.remove(0).digest;
    let entries = harness.memory.entries();
    let pay = ask("pay");
    for (tools, decision) in [
        (vec![], Decision::Approve),
        (vec![], Decision::ApproveWith(json!({}))),
        (vec![], Decision::Deny("no".into())),
        (vec![], Decision::Provide(Provided::Result(ToolOutput::text("paid by hand")))),
        (vec![pay.clone()], Decision::Approve),
    ] {
        let memory = InMemory::from_entries(entries.clone());
        let mut agent = GenericAgent::builder(ScriptedModel::new([Script::text("ok")]), PiPattern);
        for tool in tools.iter().cloned() {
            agent = agent.tool(tool);
        }
        let context = RunContext::new().memory(memory.clone());
        let (handle, _events) = agent.build().unwrap().run(context).await.unwrap();
        let is_refused =
            tools.is_empty() && matches!(decision, Decision::Approve | Decision::ApproveWith(_));
        let opened = memory.entries().len();
        let resolved = handle.send(ActionResult::new("a", digest.clone(), decision.clone())).await;
        handle.wait_for_idle().await;
        if is_refused {
            assert_eq!(resolved, Err(InputError::NoTool("pay".into())), "{decision:?}");
            assert_eq!(memory.entries().len(), opened, "{decision:?}");
            assert_eq!(handle.pending().await.unwrap().len(), 1, "{decision:?}");
        } else {
            resolved.unwrap();
            assert_eq!(handle.pending().await.unwrap().len(), 0, "{decision:?}");
        }
    }
    assert_eq!(pay.ran(), 1);
}

/// C27: the decision may come in another process than the call.
#[tokio::test(start_paused = true)]
async fn a_decision_can_come_in_another_process() {
    let tool = ask("ask");
    let mut harness = pi([calls(&["ask"]), Script::text("ok")], std::slice::from_ref(&tool)).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let mut harness = harness.restart().await;
    let open = harness.pending().await;
    harness
        .handle
        .send(ActionResult::new("a", open[0].digest.clone(), Decision::Approve))
        .await
        .unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(tool.ran(), 1);
    assert_eq!(harness.transcript().await, ["U:go", "A:[a]/ToolCalls", "R:a/Ok", "A:ok/Stop"]);
    harness.check().await;
}

/// C30
#[tokio::test(start_paused = true)]
async fn a_request_or_a_steer_instead_of_a_decision_denies_pending_actions() {
    for steer in [false, true] {
        let tool = ask("ask");
        let mut harness =
            pi([calls(&["ask"]), Script::text("ok")], std::slice::from_ref(&tool)).await;
        send(&harness, "go").await;
        harness.run_end().await;
        let digest = harness.pending().await[0].digest.clone();
        if steer {
            harness.handle.steer("leave it").await.unwrap();
        } else {
            send(&harness, "leave it").await;
        }
        let events = harness.run_end().await;
        assert_eq!(end_of(&events), RunStatus::Done);
        assert_eq!(
            harness.transcript().await,
            ["U:go", "A:[a]/ToolCalls", "R:a/Denied", "U:leave it", "A:ok/Stop"]
        );
        assert_eq!(
            harness.handle.send(ActionResult::new("a", digest, Decision::Approve)).await,
            Err(InputError::NotPending("a".into()))
        );
        assert_eq!(tool.ran(), 0);
        harness.check().await;
        check_events(&events).unwrap();
    }
}

/// C30: with `Hold` the message waits until the batch is closed.
#[tokio::test(start_paused = true)]
async fn with_hold_a_message_waits_until_all_actions_are_resolved() {
    for steer in [false, true] {
        let tool = ask("ask");
        let mut harness = pi_with(
            [calls(&["ask", "ask"]), Script::text("ok"), Script::text("held")],
            std::slice::from_ref(&tool),
            |a| a.while_awaiting(WhileAwaiting::Hold),
        )
        .await;
        send(&harness, "go").await;
        harness.run_end().await;
        if steer {
            harness.handle.steer("wait").await.unwrap();
        } else {
            send(&harness, "wait").await;
        }
        let open = harness.pending().await;
        assert_eq!(open.len(), 2);
        harness
            .handle
            .send(ActionResult::new("a", open[0].digest.clone(), Decision::Approve))
            .await
            .unwrap();
        assert_eq!(end_of(&harness.run_end().await), RunStatus::AwaitingAction);
        harness
            .handle
            .send(ActionResult::new("b", open[1].digest.clone(), Decision::Approve))
            .await
            .unwrap();
        harness.handle.wait_for_idle().await;
        assert_eq!(tool.ran(), 2);
        let lines = harness.transcript().await;
        assert_eq!(lines[..4], ["U:go", "A:[a][b]/ToolCalls", "R:a/Ok", "R:b/Ok"]);
        assert!(lines[4..].contains(&"U:wait".to_owned()), "{lines:?}");
        harness.check().await;
    }
}

/// C31: a tool that suspends is called a second time, with the same id and the decision.
#[tokio::test(start_paused = true)]
async fn a_tool_that_suspends_is_resumed_with_the_decision() {
    let login = TestTool::new("login").suspends("password");
    let mut harness =
        pi([calls(&["login"]), Script::text("ok")], std::slice::from_ref(&login)).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    assert_eq!(end_of(&events), RunStatus::AwaitingAction);
    check_events(&events).unwrap();
    let mut harness = harness.restart().await;
    let open = harness.pending().await;
    assert_eq!(open[0].request.as_ref().unwrap().kind, "password");
    harness
        .handle
        .send(ActionResult::new(
            "a",
            open[0].digest.clone(),
            Decision::Provide(Provided::Input(json!("hunter2"))),
        ))
        .await
        .unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(result_of(&harness, "a").await, "\"hunter2\"");
    assert_eq!(login.ran(), 1);
    harness.check().await;
}

/// C26: the tool's rule, the agent's rules, and a predicate that panics.
#[tokio::test(start_paused = true)]
async fn which_calls_run_without_an_approval() {
    let tools = [
        TestTool::new("reads"),
        ask("writes"),
        ask("listed"),
        ask("never").spec(|s| s.approval(Approval::Never)),
        TestTool::new("always").spec(|s| s.approval(Approval::Always)),
        TestTool::new("when")
            .spec(|s| s.approval(Approval::when(|args, _| args.get("big").is_some()))),
        TestTool::new("panics").spec(|s| s.approval(Approval::when(|_, _| panic!("no")))),
    ];
    let mut batch = calls(&["reads", "writes", "listed", "never", "always", "when", "panics"]);
    batch = batch.call("z", "when", r#"{"big": true}"#);
    let harness = pi_with([batch], &tools, |a| a.approve(["listed"])).await;
    harness.handle.prompt("go").await.unwrap();
    let open: Vec<String> = harness.pending().await.iter().map(|o| o.call.to_string()).collect();
    assert_eq!(open, ["b", "e", "g", "z"]);
}

/// C26: the agent's rules can let all calls run, or the calls that a predicate accepts.
#[tokio::test(start_paused = true)]
async fn the_agents_rules_can_let_everything_run() {
    type Options = fn(AgentBuilder) -> AgentBuilder;
    let rules: [(Options, usize); 3] = [
        (|a| a.approve_all(), 0),
        (|a| a.approve_when(|spec, _, _| &*spec.name == "w"), 0),
        (|a| a.approve_when(|_, _, _| panic!("no")), 1),
    ];
    for (options, open) in rules {
        let harness = pi_with([calls(&["w"]), Script::text("ok")], &[ask("w")], options).await;
        harness.handle.prompt("go").await.unwrap();
        assert_eq!(harness.pending().await.len(), open);
    }
}

/// A call's approval, if it had one, and its idempotency key.
type Audit = (Option<ApprovalRecord>, String);

/// A tool that records the approvals and idempotency keys of its calls.
#[derive(Clone)]
struct Audited {
    spec: Arc<ToolSpec>,
    seen: Arc<std::sync::Mutex<Vec<Audit>>>,
}

#[async_trait::async_trait]
impl Tool for Audited {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &serde_json::Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let key = cx.idempotency_key();
        self.seen.lock().unwrap().push((cx.approval().cloned(), key));
        Ok(ToolOutput::text("paid"))
    }
}

/// C28: A decision has a time and a principal. The tool sees both, also in another process, and has
/// the same key there. In a branch the key differs.
#[tokio::test(start_paused = true)]
async fn a_tool_sees_who_approved_its_call_and_when() {
    let spec = ToolSpec::with_schema("pay", "Pays.", json!({ "type": "object" })).into();
    let audited = Audited { spec, seen: Arc::default() };
    let replies = || [calls(&["pay"]), Script::text("ok")];
    let options = |agent: AgentBuilder| agent.tool(audited.clone()).environment(SystemEnvironment);
    let harness = pi_with(replies(), &[], options).await;
    harness.handle.prompt("go").await.unwrap();
    let waiting = harness.memory.entries();
    let action = harness.pending().await.remove(0);
    let approve = || ActionResult::new("a", action.digest.clone(), Decision::Approve).by("Ann");
    harness.handle.send(InputEvent::ExternalActionResult(approve())).await.unwrap();
    harness.handle.wait_for_idle().await;
    let decided = harness.memory.entries().iter().find_map(|entry| match entry {
        LogEntry::Decided { by, time, .. } => Some((by.clone(), *time)),
        _ => None,
    });
    let (by, time) = decided.unwrap();
    assert_eq!((by.as_deref(), time > 0), (Some("Ann"), true));

    // The process ends after the decision, and another one carries it out.
    let entries = harness.memory.entries();
    let at = entries.iter().position(|entry| matches!(entry, LogEntry::Decided { .. })).unwrap();
    let next = pi_with(replies(), &[], |agent| agent.tool(audited.clone())).await;
    let next = next.restart_from(entries[..=at].to_vec()).await;
    next.handle.wait_for_idle().await;

    // A branch that begins with the same call.
    let store = InMemoryStore::new();
    let memory = store.open("s").await.unwrap();
    memory.append(0, waiting.into()).await.unwrap();
    drop(memory);
    let model = ScriptedModel::new(replies());
    let agent = GenericAgent::builder(model, PiPattern).tool(audited.clone()).build().unwrap();
    let other = RunContext::new()
        .session("other")
        .memory(InMemory::from_entries(store.read("s", 0).await.unwrap()));
    let (handle, _events) = agent.run(other).await.unwrap();
    handle.send(InputEvent::ExternalActionResult(approve().by("Bob"))).await.unwrap();
    handle.wait_for_idle().await;

    let seen = audited.seen.lock().unwrap();
    let [(first, key), (second, same_key), (third, other_key)] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!(first, second);
    let (first, third) = (first.as_ref().unwrap(), third.as_ref().unwrap());
    assert_eq!((first.by.as_deref(), first.time), (Some("Ann"), time));
    assert_eq!(third.by.as_deref(), Some("Bob"));
    assert_eq!(key, same_key);
    assert_ne!(key, other_key);
}
