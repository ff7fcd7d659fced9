//! Arguments without the feature `schema`: the types of the tool check them, and a tool that cannot
//! check them is refused.

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use loopwright_core::agent::{AgentError, InputError};
    use loopwright_core::event::{Decision, Prompt};
    use loopwright_core::hooks::BeforeToolCall;
    use loopwright_core::testing::{Harness, Script, ScriptedModel};
    use loopwright_core::tool::{Effect, ToolSpec, ToolboxError, tool_with};
    use loopwright_core::{
        BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, Tool, ToolContext,
        ToolError, ToolOutput,
    };
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Deserialize, JsonSchema)]
    struct Add {
        a: i64,
        b: i64,
    }

    /// A pattern that runs the tools of one reply.
    struct Once;

    #[async_trait]
    impl BehaviorPattern for Once {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            let reply = step.ask().await?;
            let called = step.call_tools(&reply).await?;
            Ok(if called.awaits_user() { StepEnd::AwaitingAction } else { StepEnd::Done })
        }
    }

    async fn run(arguments: Value) -> (usize, String) {
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = runs.clone();
        let add =
            tool_with(counter, "add", "Adds.", async |runs: Arc<AtomicUsize>, args: Add, _| {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok::<_, ToolError>((args.a + args.b).to_string())
            })
            .effect(Effect::ReadOnly);
        let call = Script::calls([("c", "add", arguments)]);
        let harness = Harness::new(Once, [call], |agent| agent.tool(add)).await;
        harness.handle.prompt("go").await.unwrap();
        let state = harness.handle.state().await.unwrap();
        (runs.load(Ordering::SeqCst), state.messages.last().unwrap().text())
    }

    #[tokio::test(start_paused = true)]
    async fn arguments_are_coerced_and_checked_by_the_types_of_the_tool() {
        assert_eq!(run(json!({"a": "2", "b": 3})).await, (1, "5".into()));
        let (runs, why) = run(json!({"a": 2})).await;
        assert_eq!(runs, 0, "a call with unchecked arguments does not run");
        assert!(why.contains("missing field `b`"), "{why}");
    }

    struct OnlySchema(Arc<ToolSpec>);

    #[async_trait]
    impl Tool for OnlySchema {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }

        async fn call(&self, _: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Ok("ran".into())
        }
    }

    #[test]
    fn a_tool_that_has_only_a_schema_is_refused_when_the_agent_is_built() {
        let tool = OnlySchema(Arc::new(ToolSpec::new::<Add>("add", "Adds.")));
        let built = GenericAgent::builder(ScriptedModel::new([]), Once).tool(tool).build();
        assert_eq!(built.err(), Some(AgentError::Tool(ToolboxError::Unchecked("add".into()))));
    }

    /// A tool that claims, when the agent is built, to check arguments, and then does not.
    struct Inconsistent(OnlySchema);

    #[async_trait]
    impl Tool for Inconsistent {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0.0
        }

        fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
            arguments.is_null().then_some(Ok(()))
        }

        async fn call(&self, _: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Ok("ran".into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_arguments_the_tool_does_not_check_does_not_run() {
        let tool = Inconsistent(OnlySchema(Arc::new(ToolSpec::new::<Add>("add", "Adds."))));
        let call = Script::calls([("c", "add", json!({"a": 2, "b": 3}))]);
        let harness = Harness::new(Once, [call], |agent| agent.tool(tool).approve_all()).await;
        harness.handle.prompt("go").await.unwrap();
        let result = harness.handle.state().await.unwrap().messages.last().unwrap().text();
        assert!(result.contains("cannot check these arguments"), "{result}");
    }

    #[tokio::test(start_paused = true)]
    async fn arguments_that_a_hook_rewrites_are_checked() {
        let rewrite = |arguments: Value| async move {
            let add = tool_with((), "add", "Adds.", async |(), args: Add, _| {
                Ok::<_, ToolError>((args.a + args.b).to_string())
            });
            let call = Script::calls([("c", "add", json!({"a": 2, "b": 3}))]);
            let harness = Harness::new(Once, [call], |agent| {
                agent.tool(add).approve_all().before_tool_call(move |_, _| {
                    let arguments = arguments.clone();
                    async move { BeforeToolCall::Rewrite(arguments) }
                })
            })
            .await;
            harness.handle.prompt("go").await.unwrap();
            harness.handle.state().await.unwrap().messages.last().unwrap().text()
        };
        assert_eq!(rewrite(json!({"a": 4, "b": 5})).await, "9");
        let refused = rewrite(json!({"a": 4})).await;
        assert!(refused.contains("missing field `b`"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn arguments_that_the_user_edits_are_checked() {
        let add = tool_with((), "add", "Adds.", async |(), args: Add, _| {
            Ok::<_, ToolError>((args.a + args.b).to_string())
        });
        let call = Script::calls([("c", "add", json!({"a": 2, "b": 3}))]);
        let harness = Harness::new(Once, [call], |agent| agent.tool(add)).await;
        harness.handle.prompt("go").await.unwrap();
        harness.handle.wait_for_idle().await;
        let action = harness.handle.pending().await.unwrap().remove(0);
        let approve_with =
            |arguments| harness.handle.resolve(&action, Decision::ApproveWith(arguments));
        let refused = approve_with(json!({"a": 4})).await;
        assert!(matches!(refused, Err(InputError::BadArguments(_))), "{refused:?}");
        approve_with(json!({"a": 4, "b": 5})).await.unwrap();
        harness.handle.wait_for_idle().await;
        let result = harness.handle.state().await.unwrap().messages.last().unwrap().text();
        assert!(result.starts_with("9\nThe user changed arguments"), "{result}");
    }

    #[tokio::test(start_paused = true)]
    async fn typed_output_is_refused() {
        let model = ScriptedModel::new([]);
        let built = GenericAgent::builder(model, Once).output::<Add>().build();
        assert!(
            matches!(built.err(), Some(AgentError::OutputSchema(why)) if why.contains("schema"))
        );
        let harness = Harness::new(Once, [], |agent| agent).await;
        let refused = harness.handle.prompt(Prompt::from("go").output::<Add>()).await;
        assert!(matches!(refused, Err(InputError::OutputSchema(_))), "{refused:?}");
    }
}
