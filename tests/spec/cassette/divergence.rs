//! Divergences of a replay, and their error messages.

use loopwright_core::testing::{Cassette, CassetteErrorKind};

use super::*;

fn agent(model: ScriptedModel, system: &str) -> AgentBuilder {
    let add = TestTool::new("add").effect(Effect::ReadOnly);
    GenericAgent::builder(model, PiPattern).system(system).tool(add)
}

const SYSTEM: &str = "You calculate.\nYou are brief.\nYou show no steps.";

async fn record(folder: &Folder) {
    let record = Cassette::record(folder.path()).unwrap();
    let add = Script::calls([("a", "add", json!({"numbers": [2, 2]}))]);
    let model = ScriptedModel::new([add, Script::text("4."), Script::text("You are welcome.")]);
    session(&record, agent(model, SYSTEM), async |handle| {
        prompt(handle, "What is 2 + 2?").await;
        prompt(handle, "Thank you.").await;
    })
    .await;
    record.finish().unwrap();
}

/// Replays the cassette with other inputs or another agent. Returns the error without the name of
/// the folder.
async fn error(
    folder: &Folder,
    agent: AgentBuilder,
    prompts: &[&str],
) -> (CassetteErrorKind, String) {
    let replay = Cassette::replay(folder.path()).unwrap();
    session(&replay, agent, async |handle| {
        for text in prompts {
            prompt(handle, text).await;
        }
    })
    .await;
    let error = replay.finish().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    (error.kind(), error.to_string().replace(&*folder.path().to_string_lossy(), "FILE"))
}

const ADVICE: &str = "Lines with `-` are in the cassette, lines with `+` are new. If the change is \
                      intended, delete the file and record it again.";

/// C176: A changed system prompt is shown as a diff with the request and the session.
#[tokio::test(start_paused = true)]
async fn a_changed_prompt_is_shown_as_a_diff() {
    let folder = Folder::new();
    record(&folder).await;
    let changed = agent(no_model(), &SYSTEM.replace("brief", "verbose"));
    let (kind, text) = error(&folder, changed, &["What is 2 + 2?"]).await;
    assert_eq!(kind, CassetteErrorKind::Diverged);
    let expected = "request 1 of session `root` differs from request 1 in the cassette FILE:
  system prompt:
    You calculate.
-   You are brief.
+   You are verbose.
    You show no steps.
  message 1, user:
";
    assert_eq!(text, format!("{expected}{ADVICE}"));
}

/// C176: Changed messages and options of a later request are shown.
#[tokio::test(start_paused = true)]
async fn a_changed_message_and_a_changed_option_are_shown() {
    let folder = Folder::new();
    record(&folder).await;
    let prompts = ["What is 2 + 2?", "Thanks a lot."];
    let (_, text) = error(&folder, agent(no_model(), SYSTEM), &prompts).await;
    let expected = "request 3 of session `root` differs from request 3 in the cassette FILE:
    model: test/scripted
  message 5, user:
-   Thank you.
+   Thanks a lot.
  tool add:
    A tool of a test.
";
    assert_eq!(text, format!("{expected}{ADVICE}"));
    let warm = agent(no_model(), SYSTEM).temperature(0.7).thinking(ThinkingLevel::High);
    let (_, text) = error(&folder, warm, &prompts).await;
    assert!(text.contains("\n+ temperature: 0.7\n+ thinking: high\n"), "{text}");
}

/// C176: A call with other arguments is shown, here because a hook rewrites them.
#[tokio::test(start_paused = true)]
async fn a_call_with_other_arguments_is_shown() {
    let folder = Folder::new();
    record(&folder).await;
    let rewriting = agent(no_model(), SYSTEM)
        .before_tool_call(async |_, _| BeforeToolCall::Rewrite(json!({"numbers": [2, 3]})));
    let (kind, text) = error(&folder, rewriting, &["What is 2 + 2?"]).await;
    assert_eq!(kind, CassetteErrorKind::Diverged);
    let expected = "call 1 of session `root` differs from call 1 in the cassette FILE:
      \"numbers\": [
        2,
-       2
+       3
      ]
    }
";
    assert_eq!(text, format!("{expected}{ADVICE}"));
}

/// C176: A request that is sent more often than recorded is named.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_once_more_is_named() {
    let folder = Folder::new();
    let asking = |times: usize| {
        does(move |step| {
            Box::pin(async move {
                step.take_input().await?;
                for _ in 0..times {
                    step.ask_with(Ask::detached()).await?.or_end()?;
                }
                Ok(StepEnd::Done)
            })
        })
    };
    let record = Cassette::record(folder.path()).unwrap();
    let once = GenericAgent::builder(ScriptedModel::new([Script::text("One.")]), asking(1));
    session(&record, once, async |handle| prompt(handle, "Go.").await).await;
    record.finish().unwrap();
    let (_, text) = error(&folder, GenericAgent::builder(no_model(), asking(2)), &["Go."]).await;
    let expected = "request 2 of session `root` is not in the cassette FILE: all of this session \
                    have been replayed. It equals request 1. If the change is intended, delete \
                    the file and record it again.";
    assert_eq!(text, expected);
}

/// C176: An additional request is shown.
#[tokio::test(start_paused = true)]
async fn a_request_more_is_shown() {
    let folder = Folder::new();
    record(&folder).await;
    let prompts = ["What is 2 + 2?", "Thank you.", "Bye."];
    let (kind, text) = error(&folder, agent(no_model(), SYSTEM), &prompts).await;
    assert_eq!(kind, CassetteErrorKind::Diverged);
    let expected = "request 4 of session `root` is not in the cassette FILE: all of this session \
                    have been replayed. It differs from request 3:
  message 5, user:
    Thank you.
+ message 6, assistant:
+   You are welcome.
+   model: test/scripted
+ message 7, user:
+   Bye.
  tool add:
    A tool of a test.
";
    assert_eq!(text, format!("{expected}{ADVICE}"));
}

/// C176: Exchanges that were not replayed are listed.
#[tokio::test(start_paused = true)]
async fn what_was_not_replayed_is_listed() {
    let folder = Folder::new();
    record(&folder).await;
    let (kind, text) = error(&folder, agent(no_model(), SYSTEM), &["What is 2 + 2?"]).await;
    assert_eq!(kind, CassetteErrorKind::NotReplayed);
    let expected = "the agent did not do all that the cassette FILE has; these were not replayed:
- request 3 of session `root`: message 5, user: Thank you.";
    assert_eq!(text, expected);
    let replay = Cassette::replay(folder.path()).unwrap();
    assert_eq!(replay.remaining(), 4);
    let text = replay.finish().unwrap_err().to_string();
    assert!(text.ends_with("\n- call 1 of session `root`: add {\"numbers\":[2,2]}"), "{text}");
}

/// C176: After a divergence all requests fail with its text, so the outcome of the run shows it.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_the_run_shows_the_first_divergence() {
    let folder = Folder::new();
    record(&folder).await;
    let replay = Cassette::replay(folder.path()).unwrap();
    session(&replay, agent(no_model(), "Other."), async |handle| {
        let first = handle.prompt("What is 2 + 2?").await.unwrap().error.unwrap();
        let second = handle.prompt("Thank you.").await.unwrap().error.unwrap();
        assert!(first.contains("+   Other.\n"), "{first}");
        assert_eq!(first, second);
    })
    .await;
}
