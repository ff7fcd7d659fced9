//! Typed answers: rule 6 of the loop.

use crate::kit::*;

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    city: String,
    degrees: i32,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Mood {
    happy: bool,
}

const ROME: &str = r#"{"city": "Rome", "degrees": 30}"#;

fn rome() -> Weather {
    Weather { city: "Rome".into(), degrees: 30 }
}

/// C16: An agent with an output type sends its schema, and the outcome has the value, even if the
/// JSON is fenced.
#[tokio::test(start_paused = true)]
async fn a_typed_answer_is_in_the_outcome_also_where_it_is_fenced() {
    for text in [ROME.to_owned(), format!("```json\n{ROME}\n```"), format!("\n```\n{ROME}```\n")] {
        let harness = pi_with([Script::text(&text)], &[], |a| a.output::<Weather>()).await;
        let outcome = harness.handle.prompt("Weather?").await.unwrap();
        assert_eq!(
            (outcome.end, outcome.output::<Weather>()),
            (RunStatus::Done, Some(rome())),
            "{text}"
        );
        assert_eq!(outcome.output::<Mood>(), None, "it is of another type");
        let asked = harness.model.requests()[0].output.clone().unwrap();
        assert_eq!(
            (asked.name.as_str(), &asked.schema["required"]),
            ("Weather", &json!(["city", "degrees"]))
        );
    }
}

/// C16: A prompt's output type takes precedence over the agent's, for its own run only.
#[tokio::test(start_paused = true)]
async fn a_prompts_type_goes_before_the_agents() {
    let harness = pi_with([Script::text(r#"{"happy": true}"#), Script::text(ROME)], &[], |a| {
        a.output::<Weather>()
    })
    .await;
    let first = harness.handle.prompt(Prompt::from("Happy?").output::<Mood>()).await.unwrap();
    assert_eq!(first.output::<Mood>(), Some(Mood { happy: true }));
    assert_eq!(harness.handle.prompt("Weather?").await.unwrap().output::<Weather>(), Some(rome()));
}

/// C16: Without an output type there is no value, whatever the text looks like.
#[tokio::test(start_paused = true)]
async fn without_a_type_there_is_no_value() {
    let harness = pi([Script::text(ROME)], &[]).await;
    let outcome = harness.handle.prompt("Weather?").await.unwrap();
    assert_eq!((outcome.value.as_ref(), outcome.output::<Weather>()), (None, None));
}

/// C16: An answer that does not match goes back to the model with the errors. A valid one then ends
/// the run.
#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_goes_back_to_the_model() {
    let wrong = r#"{"city": "Rome", "degrees": "hot"}"#;
    let harness =
        pi_with([Script::text("It is hot."), Script::text(wrong), Script::text(ROME)], &[], |a| {
            a.output::<Weather>()
        })
        .await;
    let outcome = harness.handle.prompt("Weather?").await.unwrap();
    assert_eq!((outcome.end, outcome.output::<Weather>()), (RunStatus::Done, Some(rome())));
    assert!(sent(&harness, 1)[2].contains("not valid JSON"), "{:?}", sent(&harness, 1));
    assert!(
        sent(&harness, 2)[4].contains("/degrees") && sent(&harness, 2)[4].contains("\"hot\""),
        "{:?}",
        sent(&harness, 2)
    );
    harness.check().await;
}

/// C16: It goes back twice by default. Then the run ends in an error with the reason. The agent can
/// set the number.
#[tokio::test(start_paused = true)]
async fn an_answer_goes_back_twice_and_then_the_run_ends_in_an_error() {
    for (limits, requests) in [(Limits::default(), 3), (Limits::default().output_retries(0), 1)] {
        let replies = (0..4).map(|_| Script::text(r#"{"city": "Rome"}"#));
        let harness = pi_with(replies, &[], |a| a.limits(limits).output::<Weather>()).await;
        let outcome = harness.handle.prompt("Weather?").await.unwrap();
        assert_eq!((outcome.end, outcome.value), (RunStatus::Error, None));
        assert!(outcome.error.unwrap().contains("/degrees"));
        assert_eq!(harness.model.requests().len(), requests);
    }
}

/// C16: Tools may be called on the way: a reply with calls need not match the schema.
#[tokio::test(start_paused = true)]
async fn calls_on_the_way_to_a_typed_answer_are_no_answers() {
    let harness = pi_with([calls(&["x"]), Script::text(ROME)], &[TestTool::new("x")], |a| {
        a.output::<Weather>()
    })
    .await;
    assert_eq!(harness.handle.prompt("Weather?").await.unwrap().output::<Weather>(), Some(rome()));
    assert_eq!(harness.transcript().await.len(), 4);
}

/// C16: An invalid schema is found when the agent is built.
#[test]
fn a_schema_that_is_none_is_refused() {
    let output = OutputSchema::new("bad", json!({"type": "nonsense"}));
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).output_schema(output);
    assert!(matches!(agent.build().err(), Some(AgentError::OutputSchema(_))));
}
