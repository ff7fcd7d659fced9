//! The output of calls that were cut off.

use loopwright_core::testing::Replay;

use crate::kit::*;

/// The behaviour of a cancelled tool.
#[derive(Clone, Copy)]
enum Cancelled {
    /// The tool returns its output so far.
    Returns,
    /// The tool returns without output.
    Stops,
    /// The tool continues.
    Ignores,
}

/// Returns a tool that streams a line and then waits for its end.
fn tool(name: &str, cancelled: Cancelled) -> Arc<dyn Tool> {
    let run = move |_: serde_json::Value, cx: ToolContext| async move {
        cx.update("tick 1\n").await;
        match cancelled {
            Cancelled::Ignores => std::future::pending().await,
            Cancelled::Stops | Cancelled::Returns => cx.cancelled().await,
        }
        match cancelled {
            Cancelled::Returns => {
                let output = "Killed.\ntick 1\n".into();
                Err::<ToolOutput, _>(ToolError::CancelledWith { output, details: json!({"n": 1}) })
            }
            _ => Err(ToolError::Cancelled),
        }
    };
    Arc::new(tool_fn(name, "Ticks.", run).effect(Effect::ReadOnly))
}

async fn ticking(
    cancelled: Cancelled,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let tools = [tool("tick", cancelled)];
    let replies = [calls(&["tick"]), Script::text("ok")];
    let mut harness = Harness::new(PiPattern, replies, |agent| options(agent.tools(tools))).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::ToolExecutionUpdate { .. })).await;
    harness
}

/// C44: the result of an aborted call has its output so far: the returned output, or else the
/// streamed one. Front ends and the model see it.
#[tokio::test(start_paused = true)]
async fn an_aborted_call_keeps_its_output() {
    let aborted = "Aborted after it had started, since the user aborted; it may have had effects.";
    for (cancelled, output, details) in [
        (Cancelled::Returns, "Killed.\ntick 1\n", Some(json!({"n": 1}))),
        (Cancelled::Stops, "Its output so far:\ntick 1\n", None),
        (Cancelled::Ignores, "Its output so far:\ntick 1\n", None),
    ] {
        let mut harness = ticking(cancelled, |agent| agent).await;
        harness.handle.abort().await.unwrap();
        harness.run_end().await;
        let text = format!("{aborted}\n{output}");
        let messages = harness.handle.state().await.unwrap().messages;
        let result = messages.last().unwrap().as_tool_result().unwrap();
        assert_eq!((result.status, result.text()), (ResultStatus::Aborted, text.clone()));
        assert_eq!(result.details.as_deref(), details.as_ref());
        harness.handle.prompt("why?").await.unwrap();
        assert_eq!(harness.model.requests()[1].messages[2].text(), text);
        harness.check().await;
        let replay = Replay::from_entries(harness.memory.entries());
        let agent = GenericAgent::builder(replay.model(), PiPattern).tools(replay.tools());
        let replayed = replay.run(&agent.build().unwrap()).await;
        assert!(replayed.is_ok(), "{}", replayed.unwrap_err());
    }
}

/// C50: a call that is given up keeps its streamed output.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_keeps_its_output() {
    let limits = |agent: AgentBuilder| agent.limits(Limits::default().tool_timeout(ms(500)));
    let mut harness = ticking(Cancelled::Ignores, limits).await;
    harness.run_end().await;
    let result = result_of(&harness, "a").await;
    assert!(result.starts_with("It was given up after 500ms"), "{result}");
    assert!(result.ends_with("\nIts output so far:\ntick 1\n"), "{result}");
}

/// C19 C44: a hook that changes results sees the output of an aborted call too. Output that it has
/// not seen is in no result.
#[tokio::test(start_paused = true)]
async fn hooks_see_the_output_of_an_aborted_call() {
    for (cancelled, expected) in [(Cancelled::Returns, Some("redacted")), (Cancelled::Stops, None)]
    {
        let redact = |agent: AgentBuilder| {
            agent.around_tool_call(|_, _, next| {
                Box::pin(async move {
                    let mut result = next.run().await;
                    result.content = vec![Content::text("redacted")];
                    result
                })
            })
        };
        let mut harness = ticking(cancelled, redact).await;
        harness.handle.abort().await.unwrap();
        harness.run_end().await;
        let result = result_of(&harness, "a").await;
        assert_eq!(result.split_once('\n').map(|(_, output)| output), expected);
        assert!(!result.contains("tick"), "{result}");
    }
}
