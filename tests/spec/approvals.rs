//! The information and the choices of an approver: the terms of pending actions, and quorums.

use crate::kit::*;

fn pay_with(options: ActionOptions) -> (TestTool, TestTool) {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let tool = pay.clone().spec(|spec| spec.action_options(options));
    (pay, tool)
}

/// Returns a session with a pending call `a` of the tool `pay`.
async fn asking(options: ActionOptions) -> (Harness, TestTool) {
    let (pay, tool) = pay_with(options);
    let harness = pi([calls(&["pay"]), Script::text("ok")], &[tool]).await;
    harness.handle.prompt("go").await.unwrap();
    (harness, pay)
}

fn all_options() -> ActionOptions {
    ActionOptions::new()
        .description("Pays an invoice.")
        .role("treasurer")
        .role("boss")
        .deadline(ms(60_000))
        .approved_by_default()
        .decisions([DecisionKind::Approve])
        .quorum(2)
        .data(json!({ "invoice": 7 }))
}

async fn approve(harness: &Harness, by: Option<&str>) -> Result<InputId, InputError> {
    let action = harness.pending().await.remove(0);
    let mut result = ActionResult::new(action.call, action.digest, Decision::Approve);
    if let Some(by) = by {
        result = result.by(by).source("test");
    }
    harness.handle.send(InputEvent::ExternalActionResult(result)).await
}

/// C233: an action carries the information for its approver, from the tool: in the log, in its
/// event, in the pending actions of a session and of a store, and after a restart.
#[tokio::test(start_paused = true)]
async fn an_action_carries_what_its_approver_needs() {
    let (mut harness, _) = asking(all_options()).await;
    let expected = json!({
        "description": "Pays an invoice.",
        "roles": ["treasurer", "boss"],
        "deadline": 60_000,
        "default_decision": "approve",
        "decisions": ["approve"],
        "quorum": 2,
        "data": { "invoice": 7 },
    });
    let terms = |action: &ExternalAction| serde_json::to_value(&action.terms).unwrap();
    assert_eq!(terms(&harness.pending().await[0]), expected);
    let emitted = harness.run_end().await;
    let event = emitted.iter().find_map(|envelope| match &envelope.event {
        AgentEvent::ExternalAction(action) => Some(action.clone()),
        _ => None,
    });
    assert_eq!(terms(&event.unwrap()), expected);
    let listed = SessionInfo::of("s", &harness.memory.entries()).pending;
    assert_eq!(terms(&listed[0].action), expected);
    let json = serde_json::to_string(&harness.memory.entries()).unwrap();
    let entries: Vec<LogEntry> = serde_json::from_str(&json).unwrap();
    let harness = harness.restart_from(entries).await;
    assert_eq!(terms(&harness.pending().await[0]), expected);
}

/// C233: an action without options is stored as before there were terms, and is read from older
/// logs.
#[tokio::test(start_paused = true)]
async fn older_logs_have_actions_without_terms() {
    let (harness, _) = asking(ActionOptions::new()).await;
    let entries = harness.memory.entries();
    let awaiting = |entry: &&LogEntry| matches!(entry, LogEntry::CallAwaiting { .. });
    let stored = serde_json::to_value(entries.iter().find(awaiting).unwrap()).unwrap();
    assert_eq!(stored.get("terms"), None);
    let old = json!({
        "type": "decided", "input": "i", "call": "a", "decision": "approve", "by": "ann", "time": 3,
    });
    let old: LogEntry = serde_json::from_value(old).unwrap();
    let entries: Vec<LogEntry> = entries.into_iter().chain([old]).collect();
    check_log(&entries).unwrap();
    assert!(SessionLog::of(&entries).pending().is_empty());
}

/// C233: a hook requires an approval for one call, with options that replace the tool's. Questions
/// of patterns and models, and calls that suspend, have options too.
#[tokio::test(start_paused = true)]
async fn hooks_questions_and_suspended_calls_have_options() {
    let options = || all_options().description("Big.");
    let hook = move |_, info: ToolCallInfo| {
        let is_big = info.arguments["euros"].as_u64() > Some(100);
        std::future::ready(match is_big {
            true => BeforeToolCall::NeedsApproval(all_options().description("Big.")),
            false => BeforeToolCall::Proceed,
        })
    };
    let (pay, tool) = pay_with(ActionOptions::new().description("Any."));
    let call = |id, euros| (id, "pay", json!({ "euros": euros }));
    let replies = [Script::calls([call("small", 5), call("big", 500)]), Script::text("ok")];
    let harness = Harness::new(PiPattern, replies, |agent| {
        agent.tool(tool).approve_all().before_tool_call(hook)
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    let pending = harness.pending().await;
    let described: Vec<_> =
        pending.iter().map(|a| (&*a.call, a.terms.description.as_deref())).collect();
    assert_eq!((described, pay.ran()), (vec![("big", Some("Big."))], 1));

    // The question determines its answers and their number, not its options.
    let asked = does(move |step| {
        Box::pin(async move {
            step.take_input().await?;
            step.question("key", Question::text("Why?").options(options())).await?;
            Ok(StepEnd::AwaitingAction)
        })
    });
    let question = Harness::new(asked, [], |agent| agent).await;
    let ask = Script::calls([("a", "ask_user", json!({ "question": "Why?" }))]);
    let by_model =
        Harness::new(PiPattern, [ask], |agent| agent.tool(AskUser::new().options(options()))).await;
    let login = TestTool::new("login")
        .suspends("login")
        .spec(|spec| spec.approval(Approval::Never).action_options(options()));
    let suspended = pi([calls(&["login"])], &[login]).await;
    for harness in [question, by_model, suspended] {
        harness.handle.prompt("go").await.unwrap();
        let terms = harness.pending().await.remove(0).terms;
        let expected = all_options().description("Big.").decisions([]).quorum(1);
        let expected = ExternalAction::new("", "", json!({}), "").terms({
            let mut terms = ActionTerms::default();
            terms.description = expected.description;
            terms.roles = expected.roles;
            terms.deadline = Some(60_000);
            terms.default_decision = DefaultDecision::Approve;
            terms.data = expected.data;
            terms
        });
        assert_eq!(terms, expected.terms);
    }
}

/// C234: a decision that an action does not allow is refused and changes nothing. Denying is always
/// allowed. Nobody decides under the name of the session itself.
#[tokio::test(start_paused = true)]
async fn a_decision_that_is_not_allowed_is_refused() {
    let (harness, pay) = asking(ActionOptions::new().decisions([DecisionKind::Provide])).await;
    let edited = Decision::ApproveWith(json!({}));
    for decision in [Decision::Approve, edited] {
        let name = decision.name();
        let why = harness.resolve(0, decision).await.unwrap_err();
        let expected = format!("`{name}` is not allowed for this call: use provide, deny");
        assert_eq!(why, InputError::BadDecision(expected));
    }
    let why = approve(&harness, Some("system")).await.unwrap_err();
    assert!(why.to_string().contains("name another principal"), "{why}");
    let provided = Provided::Result(ToolOutput::text("paid by hand"));
    harness.resolve(0, Decision::Provide(provided)).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((result_of(&harness, "a").await.as_str(), pay.ran()), ("paid by hand", 0));

    let (harness, _) = asking(ActionOptions::new().decisions([DecisionKind::Approve])).await;
    harness.resolve(0, Decision::Deny("no".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Denied]);
}

/// C238: a call with a quorum runs when enough different principals have approved it. Each approval
/// is durable and shown. Approvals without a principal do not count, nor does a second one of the
/// same principal.
#[tokio::test(start_paused = true)]
async fn a_quorum_of_different_principals_approves_a_call() {
    let (mut harness, pay) = asking(ActionOptions::new().quorum(3)).await;
    harness.run_end().await;
    let nobody = approve(&harness, None).await.unwrap_err();
    assert!(nobody.to_string().contains("must name its principal"), "{nobody}");
    approve(&harness, Some("ann")).await.unwrap();
    let twice = approve(&harness, Some("ann")).await.unwrap_err();
    assert!(twice.to_string().contains("`ann` has approved this call already"), "{twice}");
    let event = harness.drain_events().remove(0).event.clone();
    assert!(
        matches!(&event, AgentEvent::ExternalActionApproval { call, approval }
            if **call == *"a" && approval.by.as_deref() == Some("ann")),
        "{event:?}"
    );
    for refused in [
        Decision::ApproveWith(json!({})),
        Decision::Provide(Provided::Result(ToolOutput::text("x"))),
    ] {
        let why = harness.resolve(0, refused).await.unwrap_err().to_string();
        assert!(why.contains("3 principals must approve it as it is: use approve, deny"), "{why}");
    }
    // Another process has the approval.
    let harness = harness.restart().await;
    let action = harness.pending().await.remove(0);
    let approvals: Vec<_> = action.approvals.iter().map(|a| a.by.as_deref()).collect();
    assert_eq!(approvals, [Some("ann")]);
    let listed = SessionInfo::of("s", &harness.memory.entries()).pending.remove(0);
    assert_eq!(*listed.action, action);
    approve(&harness, Some("bob")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((pay.ran(), harness.pending().await[0].approvals.len()), (0, 2));
    approve(&harness, Some("eve")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((pay.ran(), statuses(&harness).await), (1, vec![ResultStatus::Ok]));
    harness.check().await;
}

/// C238: one denial denies, even after approvals, and also without a principal.
#[tokio::test(start_paused = true)]
async fn one_denial_denies_a_call_with_a_quorum() {
    let (harness, pay) = asking(ActionOptions::new().quorum(2)).await;
    approve(&harness, Some("ann")).await.unwrap();
    harness.resolve(0, Decision::Deny("no".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((pay.ran(), statuses(&harness).await), (0, vec![ResultStatus::Denied]));
}

/// C238: the same input twice is one approval.
#[tokio::test(start_paused = true)]
async fn an_approval_that_arrives_twice_counts_once() {
    let (harness, pay) = asking(ActionOptions::new().quorum(2)).await;
    let action = harness.pending().await.remove(0);
    let approval = ActionResult::new(action.call, action.digest, Decision::Approve).by("ann");
    for _ in 0..2 {
        let event = InputEvent::ExternalActionResult(approval.clone());
        assert_eq!(&*harness.handle.send(event.with_id("one")).await.unwrap(), "one");
    }
    harness.handle.wait_for_idle().await;
    assert_eq!((pay.ran(), harness.pending().await[0].approvals.len()), (0, 1));
}

/// A tool that records the decisions that its calls see.
struct Witness {
    spec: Arc<ToolSpec>,
    seen: Arc<std::sync::Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Tool for Witness {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &serde_json::Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(decision) = cx.decision() else {
            return Err(ToolError::Suspend(ActionRequest::new("code", json!("of the safe"))));
        };
        let text = |approval: &ApprovalRecord| {
            let (by, source) = (approval.by.as_deref(), approval.source.as_deref());
            format!("{} at {} by {}", by.unwrap(), approval.time, source.unwrap())
        };
        let mut seen: Vec<String> = cx.approvals().iter().map(text).collect();
        let (by, time) = (decision.by.as_deref().unwrap(), decision.time);
        let what = &decision.request.data;
        seen.push(format!("{what}: {} from {by} at {time}", decision.data));
        self.seen.lock().unwrap().extend(seen);
        Ok(ToolOutput::text("done"))
    }
}

/// C239: a tool sees the approver of its call, the source and the time. It also sees its own
/// request, and who answered it.
#[tokio::test(start_paused = true)]
async fn a_tool_sees_who_decided_and_when() {
    let seen = Arc::default();
    let spec = ToolSpec::with_schema("pay", "Pays.", json!({ "type": "object" }));
    let spec = Arc::new(spec.action_options(ActionOptions::new().quorum(2)));
    let witness = Witness { spec, seen: Arc::clone(&seen) };
    let clock = PausedClock(Instant::now());
    let replies = [calls(&["pay"]), Script::text("ok")];
    let harness =
        Harness::new(PiPattern, replies, |agent| agent.tool(witness).environment(clock)).await;
    harness.handle.prompt("go").await.unwrap();
    for (by, until) in [("ann", 5), ("bob", 2)] {
        sleep(ms(until)).await;
        approve(&harness, Some(by)).await.unwrap();
    }
    harness.handle.wait_for_idle().await;
    sleep(ms(3)).await;
    let action = harness.pending().await.remove(0);
    let code = Decision::Provide(Provided::Input(json!(123)));
    let code = ActionResult::new(action.call, action.digest, code).by("eve");
    harness.handle.send(InputEvent::ExternalActionResult(code)).await.unwrap();
    harness.handle.wait_for_idle().await;
    let expected = ["ann at 5 by test", "bob at 7 by test", "\"of the safe\": 123 from eve at 10"];
    assert_eq!(*seen.lock().unwrap(), expected);
}
