//! Hooks around calls: before, after, instead, and several times.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::kit::*;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, text: impl Into<String>) {
    log.lock().unwrap().push(text.into());
}

fn result(call: &ToolCallInfo, text: &str) -> ToolResult {
    let (id, name) = (call.call.clone(), call.tool.name.clone());
    ToolResult::new(id, name, ResultStatus::Ok, vec![Content::text(text)])
}

/// A hook that runs a call until it has not failed, at most so often.
#[derive(Clone)]
struct Retry {
    max: usize,
    pause: Duration,
    /// The number of calls of the hook.
    called: Arc<AtomicUsize>,
}

impl Retry {
    fn new(max: usize, pause: Duration) -> Self {
        Retry { max, pause, called: Arc::default() }
    }
}

#[async_trait::async_trait]
impl Hooks for Retry {
    async fn around_tool_call(
        &self,
        _: &HookContext,
        _: &ToolCallInfo,
        next: Next<'_>,
    ) -> ToolResult {
        self.called.fetch_add(1, SeqCst);
        for _ in 1..self.max {
            let result = next.run().await;
            if result.status == ResultStatus::Ok {
                return result;
            }
            sleep(self.pause).await;
        }
        next.run().await
    }
}

/// Returns how many results of calls the log has.
fn logged(harness: &Harness) -> usize {
    let entries = harness.memory.entries();
    entries.iter().filter(|entry| matches!(entry, LogEntry::CallFinished { .. })).count()
}

/// C441 C443: The layers nest, the first one outermost, and each works before and after the tool.
/// The model gets the result of the outermost.
#[tokio::test(start_paused = true)]
async fn layers_around_a_call_nest() {
    let log = Log::default();
    let layer = |name: &'static str| {
        let log = log.clone();
        move |agent: AgentBuilder| {
            agent.around_tool_call(move |cx, call, next| {
                let log = log.clone();
                Box::pin(async move {
                    note(&log, format!("{name} before {} of {}", call.call, cx.session_id));
                    let mut result = next.run().await;
                    note(&log, format!("{name} after {}", result.text()));
                    result.content = vec![Content::text(format!("{name}({})", result.text()))];
                    result
                })
            })
        }
    };
    let (outer, inner) = (layer("outer"), layer("inner"));
    let tool = TestTool::new("x");
    let replies = [calls(&["x"]), Script::text("ok")];
    let mut harness = pi_with(replies, &[tool], |agent| inner(outer(agent))).await;
    send(&harness, "go").await;
    harness.run_end().await;
    let expected = [
        "outer before a of s",
        "inner before a of s",
        "inner after x done",
        "outer after inner(x done)",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(result_of(&harness, "a").await, "outer(inner(x done))");
    assert_eq!(sent(&harness, 1).last().unwrap(), "outer(inner(x done))");
    harness.check().await;
}

/// C441: A hook can return a result instead of running the tool. The other calls run.
#[tokio::test(start_paused = true)]
async fn a_hook_can_answer_instead_of_the_tool() {
    let tool = TestTool::new("x").effect(Effect::AtMostOnce);
    let replies = [calls(&["x", "x"]), Script::text("ok")];
    let mut harness = pi_with(replies, std::slice::from_ref(&tool), |agent| {
        agent.approve_all().around_tool_call(|_, call, next| {
            Box::pin(async move {
                match &*call.call {
                    "a" => result(call, "from the cache"),
                    _ => next.run().await,
                }
            })
        })
    })
    .await;
    send(&harness, "go").await;
    harness.run_end().await;
    assert_eq!(result_of(&harness, "a").await, "from the cache");
    assert_eq!(result_of(&harness, "b").await, "x done");
    assert_eq!((tool.ran(), logged(&harness)), (1, 2));
    harness.check().await;
}

/// C442: A hook can run the tool again. Each run gets the validated arguments, and the log gets
/// one result.
#[tokio::test(start_paused = true)]
async fn a_hook_can_run_the_tool_again() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let runs = seen.clone();
    let flaky = tool_fn("flaky", "Fails twice.", move |arguments: serde_json::Value, _| {
        let mut runs = runs.lock().unwrap();
        runs.push(arguments);
        let count = runs.len();
        async move {
            match count {
                3 => Ok("done".to_owned()),
                count => Err(ToolError::failed(format!("failure {count}"))),
            }
        }
    });
    let replies = [calls(&["flaky"]), Script::text("ok")];
    let mut harness = Harness::new(PiPattern, replies, |agent| {
        agent
            .tool(flaky.effect(Effect::ReadOnly))
            .before_tool_call(async |_, _| BeforeToolCall::Rewrite(json!({"n": 1})))
            .hook(Retry::new(5, ms(10)))
    })
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    assert_eq!(*seen.lock().unwrap(), vec![json!({"n": 1}); 3]);
    assert_eq!(result_of(&harness, "a").await, "done");
    assert_eq!((statuses(&harness).await, logged(&harness)), (vec![ResultStatus::Ok], 1));
    harness.check().await;
}

/// C444: The time limit of a call includes the hook and all runs of the tool.
#[tokio::test(start_paused = true)]
async fn the_time_limit_of_a_call_includes_its_hooks() {
    for (pause, ran) in [(ms(0), 2), (ms(9999), 1)] {
        let tool = TestTool::new("x").takes(ms(300));
        let hook = move |agent: AgentBuilder| {
            agent.limits(Limits::default().tool_timeout(ms(500))).around_tool_call(
                move |_, _, next| {
                    Box::pin(async move {
                        loop {
                            next.run().await;
                            sleep(pause).await;
                        }
                    })
                },
            )
        };
        let replies = [calls(&["x"]), Script::text("ok")];
        let harness = pi_with(replies, std::slice::from_ref(&tool), hook).await;
        let start = Instant::now();
        harness.handle.prompt("go").await.unwrap();
        assert_eq!((start.elapsed().as_millis(), tool.ran()), (500, ran));
        let result = result_of(&harness, "a").await;
        assert!(result.starts_with("It was given up after 500ms"), "{result}");
        harness.check().await;
    }
}

/// C444: An abort ends a call during a hook, and the tool does not run again.
#[tokio::test(start_paused = true)]
async fn an_abort_ends_a_call_during_its_hook() {
    let tools = [
        TestTool::new("x").fails("no"),
        TestTool::new("x").takes(ms(9999)),
        TestTool::new("x").takes_ignoring_cancel(ms(100)),
    ];
    for (n, tool) in tools.into_iter().enumerate() {
        let reached = Gate::new();
        let (gate, again) = (reached.clone(), n == 2);
        let mut harness = pi_with([calls(&["x"])], std::slice::from_ref(&tool), |agent| {
            agent.around_tool_call(move |_, _, next| {
                gate.open();
                Box::pin(async move {
                    next.run().await;
                    if !again {
                        sleep(ms(9999)).await;
                    }
                    next.run().await
                })
            })
        })
        .await;
        send(&harness, "go").await;
        reached.wait().await;
        sleep(ms(1)).await;
        harness.handle.abort().await.unwrap();
        let events = harness.run_end().await;
        assert_eq!((end_of(&events), tool.ran()), (RunStatus::Aborted, 1), "tool {n}");
        assert_eq!(statuses(&harness).await, [ResultStatus::Aborted], "tool {n}");
        let result = result_of(&harness, "a").await;
        assert!(result.starts_with("Aborted after it had started"), "tool {n}: {result}");
        harness.check().await;
    }
}

/// C444: The output of a call that was aborted stays in its result, whatever its hook does: run the
/// tool again, or answer that all is well.
#[tokio::test(start_paused = true)]
async fn a_hook_keeps_the_output_of_an_aborted_call() {
    for runs_again in [true, false] {
        let started = Gate::new();
        let gate = started.clone();
        let run = move |_: serde_json::Value, cx: ToolContext| {
            let gate = gate.clone();
            async move {
                gate.open();
                cx.cancelled().await;
                let (output, details) = ("half".into(), json!({ "n": 1 }));
                Err::<ToolOutput, _>(ToolError::CancelledWith { output, details })
            }
        };
        let tool = tool_fn("x", "Stops in the middle.", run);
        let mut harness = pi_with([calls(&["x"])], &[], |agent| {
            agent.tool(tool).approve_all().around_tool_call(move |_, call, next| {
                Box::pin(async move {
                    let half = next.run().await;
                    match runs_again {
                        true => next.run().await,
                        false => result(call, &half.text()),
                    }
                })
            })
        })
        .await;
        send(&harness, "go").await;
        started.wait().await;
        harness.handle.abort().await.unwrap();
        harness.run_end().await;
        assert_eq!(statuses(&harness).await, [ResultStatus::Aborted]);
        let result = result_of(&harness, "a").await;
        assert!(result.starts_with("Aborted after it had started"), "{result}");
        assert!(result.ends_with("half"), "{result}");
        harness.check().await;
    }
}

/// C445: After a crash inside a hook, the hook and its call start again if the tool is read-only
/// or idempotent. Otherwise the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_crash_inside_a_hook_follows_the_effect_of_the_call() {
    for (effect, status, ran) in [
        (Effect::ReadOnly, ResultStatus::Ok, 2),
        (Effect::Idempotent, ResultStatus::Ok, 2),
        (Effect::AtMostOnce, ResultStatus::OutcomeUnknown, 1),
    ] {
        let tool = TestTool::new("x").effect(effect);
        let (reached, called) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
        let (gate, count) = (reached.clone(), called.clone());
        let replies = [calls(&["x"]), Script::text("ok")];
        let harness = pi_with(replies, std::slice::from_ref(&tool), |agent| {
            agent.approve_all().around_tool_call(move |_, _, next| {
                let (gate, is_first) = (gate.clone(), count.fetch_add(1, SeqCst) == 0);
                Box::pin(async move {
                    let result = next.run().await;
                    if is_first {
                        gate.open();
                        std::future::pending::<()>().await;
                    }
                    result
                })
            })
        })
        .await;
        send(&harness, "go").await;
        reached.wait().await;
        let harness = harness.restart().await;
        assert_eq!(harness.handle.continue_run().await.unwrap().end, RunStatus::Done);
        assert_eq!(statuses(&harness).await, [status]);
        assert_eq!((tool.ran(), called.load(SeqCst)), (ran, ran), "{effect:?}");
        harness.check().await;
    }
}

/// C446: A call that suspends leaves its hooks, which are called again with it after the decision.
#[tokio::test(start_paused = true)]
async fn a_call_that_suspends_leaves_its_hooks() {
    let login = TestTool::new("login").suspends("login");
    let hook = Retry::new(3, ms(10));
    let called = hook.called.clone();
    let replies = [calls(&["login"]), Script::text("ok")];
    let mut harness =
        pi_with(replies, std::slice::from_ref(&login), |agent| agent.hook(hook)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    assert_eq!((called.load(SeqCst), logged(&harness)), (1, 0));
    harness.drain_events();
    let decision = Decision::Provide(Provided::Input(json!("token")));
    harness.resolve(0, decision).await.unwrap();
    harness.run_end().await;
    assert_eq!((called.load(SeqCst), login.ran()), (2, 1));
    assert_eq!(result_of(&harness, "a").await, r#""token""#);
    harness.check().await;
}

/// C446: A panic of a tool is an error result for its hooks. A panic of a hook ends the run.
#[tokio::test(start_paused = true)]
async fn a_hook_gets_the_panic_of_a_tool_as_a_result() {
    let tool = TestTool::new("x").panics();
    let replies = || [calls(&["x"]), Script::text("ok")];
    let harness = pi_with(replies(), std::slice::from_ref(&tool), |agent| {
        agent.around_tool_call(|_, call, next| {
            Box::pin(async move {
                let panicked = next.run().await;
                assert_eq!(panicked.status, ResultStatus::Error);
                result(call, &format!("mended: {}", panicked.text()))
            })
        })
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(result_of(&harness, "a").await, "mended: The tool panicked: boom");

    async fn panics() -> ToolResult {
        panic!("hook")
    }
    let tool = TestTool::new("x");
    let harness = pi_with(replies(), std::slice::from_ref(&tool), |agent| {
        agent.around_tool_call(|_, _, _| Box::pin(panics()))
    })
    .await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, tool.ran()), (RunStatus::Error, 0));
    assert!(result_of(&harness, "a").await.contains("a hook around it panicked"));
    harness.check().await;
}
