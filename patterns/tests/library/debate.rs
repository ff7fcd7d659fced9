//! A pattern of one's own: two models argue, each with the whole debate before it, and a third one
//! decides.

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

struct Debate {
    rounds: usize,
}

#[async_trait]
impl BehaviorPattern for Debate {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let mut debate = String::new();
            for round in 0..self.rounds {
                for side in ["pro", "contra"] {
                    let text = UserMessage::from(format!("You argue {side}. So far:\n{debate}"));
                    let ask = Ask::detached().model(side).also(text).shown(side);
                    let said = step.ask_with(ask.key(format!("{side}-{round}"))).await?.or_end()?;
                    debate += &format!("{side}: {}\n", said.text());
                }
            }
            let text = UserMessage::from(format!("The debate:\n{debate}Who wins, and why?"));
            step.ask_with(Ask::new().model("judge").also(text)).await?.or_end()?;
        }
        Ok(StepEnd::Done)
    }
}
// [/pattern]

use loopwright_core::AgentBuilder;
use loopwright_core::testing::{Harness, Script, ScriptedModel};
use loopwright_patterns::conformance::{self, Scenario};

/// Gives the agent the models of the debate.
fn with_models(agent: AgentBuilder, model: &ScriptedModel) -> AgentBuilder {
    let names = ["pro", "contra", "judge"];
    names.into_iter().fold(agent, |agent, name| agent.model_named(name, model.clone()))
}

fn replies() -> [Script; 5] {
    ["Cars kill.", "Cars carry.", "Trains carry.", "Not to me.", "Pro wins."].map(Script::text)
}

/// C503 C522: each side sees the debate so far. The speeches are shown, and the verdict alone joins
/// the conversation.
#[tokio::test(start_paused = true)]
async fn two_sides_argue_and_a_judge_decides() {
    let model = ScriptedModel::new(replies());
    let agent = |agent| with_models(agent, &model);
    let harness = Harness::new(Debate { rounds: 2 }, [], agent).await;
    let outcome = harness.handle.prompt("Ban cars?").await.unwrap();
    assert_eq!((&*outcome.text, outcome.has_finished()), ("Pro wins.", true));
    let speeches = [
        "D:pro: Cars kill.",
        "D:contra: Cars carry.",
        "D:pro: Trains carry.",
        "D:contra: Not to me.",
    ];
    let shown = [&["U:Ban cars?"][..], &speeches, &["A:Pro wins./Stop"]].concat();
    assert_eq!(harness.transcript().await, shown);
    let judged = model.requests()[4].messages.last().unwrap().text();
    let debate = "pro: Cars kill.\ncontra: Cars carry.\npro: Trains carry.\ncontra: Not to me.\n";
    assert_eq!(judged, format!("The debate:\n{debate}Who wins, and why?"));
    harness.check().await;
}

/// C503: the pattern keeps the rules of the suite: no speech is paid for twice.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let scenario = |name, replies: &[Script]| Scenario::new(name, replies.to_vec());
    let scenarios = [
        scenario("a debate", &replies()).request("Ban cars?"),
        scenario("two debates", &[]).request("Ban cars?").request("Ban trains?"),
        scenario("a follow-up", &replies()).request("Ban cars?").follow_up("And trains?"),
    ];
    let scenarios = scenarios.map(|scenario| scenario.agent(with_models));
    let report = conformance::check(|| Debate { rounds: 2 }, scenarios).await.unwrap();
    assert!(report.sessions > 100, "{report:?}");
}
