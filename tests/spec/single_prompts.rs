//! `GenericAgent::prompt`, and the functions `ask`, `extract` and `model` of the facade.

use std::sync::atomic::{AtomicBool, Ordering};

use loopwright_core::agent::PromptError;
use loopwright_core::model::ModelErrorKind;

use crate::kit::*;

fn agent(
    replies: impl IntoIterator<Item = Script>,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> GenericAgent {
    options(GenericAgent::builder(ScriptedModel::new(replies), PiPattern)).build().unwrap()
}

/// C327: A single prompt returns the outcome of its run.
#[tokio::test(start_paused = true)]
async fn a_single_prompt_returns_its_outcome() {
    let outcome = agent([Script::text("Hi.")], |agent| agent).prompt("Hello").await.unwrap();
    assert_eq!((&*outcome.text, outcome.end), ("Hi.", RunStatus::Done));
}

/// C327: A run without an answer is an error that says why.
#[tokio::test(start_paused = true)]
async fn a_run_without_an_answer_is_an_error_that_says_why() {
    let error = async |agent: GenericAgent| agent.prompt("Hello").await.unwrap_err();

    let failed = agent([Script::error(ModelErrorKind::Auth, "The key is wrong.")], |agent| agent);
    let failed = error(failed).await;
    assert!(failed.to_string().contains("The key is wrong."), "{failed}");
    let PromptError::Run(outcome) = failed else { panic!("it is about the run") };
    assert_eq!((outcome.end, outcome.model_error), (RunStatus::Error, Some(ModelErrorKind::Auth)));

    let call = || Script::calls([("a", "pay", json!({}))]);
    let waits =
        agent([call()], |agent| agent.tool(TestTool::new("pay").effect(Effect::AtMostOnce)));
    let waits = error(waits).await.to_string();
    assert!(waits.contains("AgentBuilder::approve"), "{waits}");

    let limited = agent([call(), call()], |agent| {
        agent.tool(TestTool::new("pay")).approve_all().limits(Budget::default().turns(1))
    });
    let limited = error(limited).await.to_string();
    assert!(limited.contains("limit of turns"), "{limited}");

    let empty = error(agent([Script::text("")], |agent| agent)).await.to_string();
    assert!(empty.contains("reply is empty"), "{empty}");
}

/// C327: Dropping the future aborts the run, and with it the tools.
#[tokio::test(start_paused = true)]
async fn dropping_a_prompt_aborts_its_run() {
    let was_cancelled = Arc::new(AtomicBool::new(false));
    let seen = was_cancelled.clone();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let started = Arc::new(std::sync::Mutex::new(Some(started)));
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    let wait = tool_fn("wait", "Waits.", move |_: Nothing, cx: ToolContext| {
        let (seen, started) = (seen.clone(), started.clone());
        async move {
            let started = started.lock().unwrap().take();
            started.map(|started| started.send(()));
            cx.cancelled().await;
            seen.store(true, Ordering::SeqCst);
            Err::<String, _>(ToolError::Cancelled)
        }
    });
    let call = Script::calls([("a", "wait", json!({}))]);
    let agent = agent([call], |agent| agent.tool(wait).approve_all());
    tokio::select! {
        _ = agent.prompt("Wait.") => panic!("it waits"),
        _ = has_started => {}
    }
    while !was_cancelled.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
}

/// C328: One line asks a model, and one line returns a typed value.
#[tokio::test(start_paused = true)]
async fn one_line_asks_a_model() {
    let model = ScriptedModel::new([Script::text("Blue.")]);
    assert_eq!(loopwright::ask(model, "Which colour?").await.unwrap(), "Blue.");

    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        age: u8,
    }
    let replies = [r#"{"age": "unknown"}"#, r#"{"age": 36}"#].map(Script::text);
    let person = loopwright::extract::<Person>(ScriptedModel::new(replies), "Ada, 36").await;
    assert_eq!(person, Ok(Person { age: 36 }));
}

#[derive(Debug, PartialEq, schemars::JsonSchema)]
struct Even(u8);

impl<'de> serde::Deserialize<'de> for Even {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            even if even % 2 == 0 => Ok(Even(even)),
            _ => Err(serde::de::Error::custom("the number is odd")),
        }
    }
}

/// C328: A value that matches the schema but not the type is an error.
#[tokio::test(start_paused = true)]
async fn a_value_that_the_type_refuses_is_an_error() {
    let model = ScriptedModel::new([Script::text("3")]);
    let odd = loopwright::extract::<Even>(model, "A number.").await;
    assert_eq!(odd, Err(PromptError::Value("the number is odd".into())));
}

/// C328: A model is found by its name, and a missing key names its variable.
#[test]
fn a_model_is_known_by_its_name() {
    assert_eq!(&*loopwright::model("offline").unwrap().info().id, "offline/rules");
    assert_eq!(&*loopwright::model("ollama/llama3.3").unwrap().info().id, "ollama/llama3.3");
    let error = loopwright::model("unknown/model").err().unwrap().to_string();
    assert!(error.contains("unknown"), "{error}");
    if std::env::var_os("GROQ_API_KEY").is_none() {
        let error = loopwright::model("groq/llama-3.3-70b-versatile").err().unwrap().to_string();
        assert!(error.contains("GROQ_API_KEY"), "{error}");
    }
}
