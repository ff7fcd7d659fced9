//! Batches: one result per call, order, parallelism, and tools that misbehave.

use crate::kit::*;

/// C1 C23 C57: executions end in order of completion. Results are emitted in source order.
#[tokio::test(start_paused = true)]
async fn executions_end_in_order_of_completion_and_results_are_in_source_order() {
    let tools = [TestTool::new("slow").takes(ms(100)), TestTool::new("fast").takes(ms(10))];
    let mut harness = pi([calls(&["slow", "fast"]), Script::text("ok")], &tools).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    let ends: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let AgentEvent::ToolExecutionEnd { call, .. } = &e.event {
                Some(&**call)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(ends, ["b", "a"]);
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:[a][b]/ToolCalls", "R:a/Ok", "R:b/Ok", "A:ok/Stop"]
    );
    check_events(&events).unwrap();
}

/// C24: the number of parallel calls is limited. A sequential tool makes the whole batch
/// sequential.
#[tokio::test(start_paused = true)]
async fn parallelism_is_limited_and_a_sequential_tool_ends_it() {
    for (sequential, most, takes) in [(false, 8, 200), (false, 2, 500), (true, 8, 1000)] {
        let tool =
            TestTool::new("x").takes(ms(100)).spec(|s| if sequential { s.sequential() } else { s });
        let harness =
            pi_with([calls(&["x"; 10]), Script::text("ok")], std::slice::from_ref(&tool), |a| {
                a.limits(Limits::default().parallel_calls(most))
            })
            .await;
        let t = Instant::now();
        harness.handle.prompt("go").await.unwrap();
        assert_eq!(
            (t.elapsed().as_millis(), tool.ran()),
            (takes, 10),
            "sequential {sequential}, at most {most}"
        );
    }
}

/// C12 C13 C25 C50: each case gives the model a clear error or a result, and the run continues.
#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_hangs_chatters_or_is_unknown_gives_a_result_and_the_run_goes_on() {
    let tools = [
        TestTool::new("panic").panics(),
        TestTool::new("hang").hangs(),
        TestTool::new("chat").sends_updates(100, ms(0)),
        TestTool::new("fail").fails("no such city"),
    ];
    let mut harness =
        pi([calls(&["panic", "hang", "chat", "fail", "unknown"]), Script::text("ok")], &tools)
            .await;
    let t = Instant::now();
    send(&harness, "go").await;
    let events = harness.run_end().await;
    use ResultStatus::{Error, Ok as Fine};
    assert_eq!(statuses(&harness).await, [Error, Error, Fine, Error, Error]);
    assert_eq!(t.elapsed().as_secs(), 120, "the default limit of a tool call");
    for (call, says) in [
        ("a", "panicked: boom"),
        ("b", "given up after 120s"),
        ("d", "no such city"),
        ("e", "There is no tool `unknown`; the tools are: chat, fail"),
    ] {
        assert!(
            result_of(&harness, call).await.contains(says),
            "{}",
            result_of(&harness, call).await
        );
    }
    let updates =
        events.iter().filter(|e| matches!(e.event, AgentEvent::ToolExecutionUpdate { .. })).count();
    assert_eq!(updates, 100);
    check_events(&events).unwrap();
    harness.check().await;
}

/// C50: a tool has a total timeout, and a timeout without a sign of life.
#[tokio::test(start_paused = true)]
async fn a_tool_has_a_total_and_an_idle_timeout() {
    let total = TestTool::new("total").sends_updates(1000, ms(10)).spec(|s| s.timeout(ms(300)));
    let idle = TestTool::new("idle").hangs().spec(|s| s.idle_timeout(ms(200)));
    let alive = TestTool::new("alive").sends_updates(50, ms(100)).spec(|s| s.idle_timeout(ms(200)));
    let harness =
        pi([calls(&["total", "idle", "alive"]), Script::text("ok")], &[total, idle, alive]).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(
        statuses(&harness).await,
        [ResultStatus::Error, ResultStatus::Error, ResultStatus::Ok]
    );
    assert!(result_of(&harness, "a").await.contains("300ms without an end"));
    assert!(result_of(&harness, "b").await.contains("200ms without an update"));
}

/// C14: a result of 10 MB is cut, and its text reports that.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_long_loses_its_middle_and_says_so() {
    let long = format!("HEAD{}TAIL", "é".repeat(5_000_000));
    let harness =
        pi([calls(&["long"]), Script::text("ok")], &[TestTool::new("long").answers(long)]).await;
    harness.handle.prompt("go").await.unwrap();
    let text = result_of(&harness, "a").await;
    assert!(text.len() < 66_000 && text.starts_with("HEAD") && text.ends_with("TAIL"));
    assert!(text.contains("truncated: ") && text.contains("of 10000008 bytes"));
}

/// C10 C11 C15: wrong, malformed and cut-off arguments are an error result. Nothing runs.
#[tokio::test(start_paused = true)]
async fn wrong_malformed_and_cut_arguments_are_errors_that_can_be_mended() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Add {
        a: i64,
        b: i64,
    }
    let add = || {
        tool_fn("add", "Adds.", async |x: Add, _| Ok::<_, ToolError>((x.a + x.b).to_string()))
            .effect(Effect::ReadOnly)
    };
    let replies = [
        Script::new().call("a", "add", r#"{"a": "x"}"#).call("b", "add", r#"{"a": 1"#).call(
            "c",
            "add",
            r#"{"a": "1", "b": 2.0}"#,
        ),
        Script::new()
            .call("d", "add", r#"{"a": 1, "b": 2}"#)
            .call("e", "add", r#"{"a": 1"#)
            .stop(StopReason::Length),
        Script::text("ok"),
    ];
    let harness = Harness::new(PiPattern, replies, |agent| agent.tool(add())).await;
    harness.handle.prompt("go").await.unwrap();
    let wrong = result_of(&harness, "a").await;
    assert!(
        wrong.contains("/a") && wrong.contains("\"x\"") && wrong.contains("/b: is required"),
        "{wrong}"
    );
    assert!(result_of(&harness, "b").await.contains(r#"{"a": 1"#));
    assert_eq!(result_of(&harness, "c").await, "3");
    assert!(
        result_of(&harness, "d").await.contains("cut off"),
        "a reply cut off at the length limit runs none of its calls"
    );
    use ResultStatus::{Error, Ok as Fine};
    assert_eq!(statuses(&harness).await, [Error, Error, Fine, Error, Error]);
}

/// C2: ids that a model repeats or omits are made unique.
#[tokio::test(start_paused = true)]
async fn call_ids_are_unique_in_the_session() {
    let x = TestTool::new("x");
    let twice =
        || Script::calls([("a", "x", json!({})), ("a", "x", json!({})), ("", "x", json!({}))]);
    let harness = pi([twice(), twice(), Script::text("ok")], std::slice::from_ref(&x)).await;
    harness.handle.prompt("go").await.unwrap();
    harness.check().await; // unique ids, each with its result
    assert_eq!(x.ran(), 6);
}

/// C7: the run ends without a further request if all results ask for the end.
#[tokio::test(start_paused = true)]
async fn results_that_all_ask_for_the_end_end_the_run() {
    let fin = TestTool::new("fin").answers(ToolOutput::text("bye").terminate());
    let other = TestTool::new("other");
    let harness = pi([calls(&["fin", "other"]), calls(&["fin", "fin"])], &[fin, other]).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!(harness.model.requests().len(), 2);
    harness.check().await;
}

/// C6: extensions reach tools. An input's values win over the run context's. Details do not reach
/// the model.
#[tokio::test(start_paused = true)]
async fn tools_see_the_hosts_values_and_the_inputs_win() {
    struct User(&'static str);
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let who = tool_fn("who", "Who.", async |_: Nothing, cx| {
        let user = cx.get::<User>().map_or("nobody", |u| u.0);
        Ok::<_, ToolError>(ToolOutput::text(user).details(json!({"secret": 1})))
    });
    let model = ScriptedModel::new([
        calls(&["who"]),
        Script::text("1"),
        calls(&["who"]),
        Script::text("2"),
    ]);
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .tool(who.effect(Effect::ReadOnly))
        .build()
        .unwrap();
    let (handle, _events) = agent.run(RunContext::new().with(User("host"))).await.unwrap();
    handle.prompt(Prompt::from("go").with(User("input"))).await.unwrap();
    handle.prompt("go").await.unwrap();
    let state = handle.state().await.unwrap();
    let results: Vec<String> =
        state.messages.iter().filter_map(|m| m.as_tool_result()).map(|r| r.text()).collect();
    assert_eq!(results, ["input", "host"]);
    assert!(state.messages.iter().any(|m| m.as_tool_result().is_some_and(|r| r.details.is_some())));
}

/// A tool that fails may tell front ends more than the model.
#[tokio::test(start_paused = true)]
async fn the_details_of_a_failure_reach_the_result() {
    let failing = tool_fn("look", "Looks.", async |_: serde_json::Value, _cx| {
        Err::<String, _>(ToolError::FailedWith {
            why: "Too late.".into(),
            details: json!({ "seconds": 30 }),
        })
    });
    let failing = failing.effect(Effect::ReadOnly);
    let harness = Harness::new(PiPattern, [calls(&["look"]), Script::text("ok")], |agent| {
        agent.tool(failing)
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    let state = harness.handle.state().await.unwrap();
    let result = state.messages.iter().find_map(|m| m.as_tool_result()).unwrap();
    assert_eq!((result.status, result.text().as_str()), (ResultStatus::Error, "Too late."));
    assert_eq!(result.details.as_deref(), Some(&json!({ "seconds": 30 })));
}
