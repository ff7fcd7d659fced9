//! Task 12: branches that are rolled back. Another pattern tries each approach, with its tools and
//! without knowledge of the other approaches. A judge scores them, and the best answer wins.

// [pattern]
use loopwright_core::message::{AssistantMessage, MessageId, UserMessage};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Score {
    score: u32,
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Tree {
    root: MessageId,
    started: usize,
    tried: Vec<(u32, String)>,
}

struct Branches<P> {
    solver: P,
    approaches: Vec<&'static str>,
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Branches<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let root = step.checkpoint();
        // [essential]
        loop {
            let mut tree: Tree = step.state("tree").unwrap_or(Tree { root, ..Tree::default() });
            let approach = self.approaches.get(tree.tried.len());
            if tree.started == tree.tried.len() {
                tree.started += 1;
                step.set_state("tree", &tree)?;
                let best = tree.tried.iter().max_by_key(|(score, _)| score);
                match (approach, best) {
                    (None, Some((_, text))) => {
                        step.remember(AssistantMessage::from(&**text)).await?
                    }
                    _ => step.remember(UserMessage::from(*approach.unwrap_or(&""))).await?,
                };
            }
            let end = self.solver.next_step(step).await?;
            if end != StepEnd::Done || approach.is_none() || !step.is_answered() {
                return Ok(end);
            }
            let text = step.history().last().map(|message| message.text()).unwrap_or_default();
            let judge = Ask::detached().model("judge").key("score");
            let judge = judge.also(UserMessage::from("How good is the last answer, from 0 to 10?"));
            let Score { score } = step.ask_for(judge).await?;
            if step.has_messages() {
                continue; // the solver answers them
            }
            tree.tried.push((score, text));
            step.set_state("tree", &tree)?;
            step.rewind(tree.root).await?;
        }
        // [/essential]
    }
}
// [/pattern]

use loopwright_core::log::{LogEntry, SessionLog};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Harness, Script, ScriptedModel, ScriptedSession, TestTool};
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios};

fn pattern() -> Branches<PiPattern> {
    Branches { solver: PiPattern, approaches: vec!["By hand.", "Please look.", "Guess."] }
}

fn score(score: u32) -> Script {
    Script::text(&json!({ "score": score }).to_string())
}

fn look() -> Script {
    Script::calls([("l", "look", json!({}))])
}

/// Returns the score of an answer, by its approach.
fn judge(request: &ChatRequest) -> Value {
    let mut texts = request.messages.iter().rev().map(|message| message.text());
    let approach = texts.find(|text| pattern().approaches.contains(&&**text));
    json!({ "score": if approach.is_some_and(|text| text == "Please look.") { 9 } else { 3 } })
}

/// The best of three answers wins. No approach sees another one, and the next request sees only the
/// best answer.
#[tokio::test(start_paused = true)]
async fn the_best_branch_is_the_answer_and_the_others_are_rolled_back() {
    let judge = ScriptedModel::new([3, 9, 1].map(score));
    let replies = [Script::text("One."), look(), Script::text("Two."), Script::text("Three.")];
    let named = judge.clone();
    let options = |agent: loopwright_core::AgentBuilder| {
        agent.tool(TestTool::new("look").answers("a key")).model_named("judge", named)
    };
    let harness = Harness::new(pattern(), replies, options).await;
    assert_eq!(harness.handle.prompt("Solve it.").await.unwrap().text, "Two.");
    let requests = harness.model.requests();
    let seen = |at: usize| -> Vec<String> {
        requests[at].messages.iter().map(|message| message.text()).collect()
    };
    assert_eq!(seen(0), ["Solve it.", "By hand."]);
    assert_eq!(seen(2), ["Solve it.", "Please look.", "", "a key"]);
    assert_eq!(seen(3), ["Solve it.", "Guess."]);
    let log = harness.memory.entries();
    let context = SessionLog::of(&log).context();
    let texts: Vec<_> = context.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Solve it.", "Two."]);
    let is_rewind = |entry: &&LogEntry| matches!(entry, LogEntry::Rewound { .. });
    assert_eq!((log.iter().filter(is_rewind).count(), judge.requests().len()), (3, 3));
    assert_eq!(harness.transcript().await.len(), 10, "the history keeps the branches");
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    // A late steer is a separate run, in which all branches have been tried. It is open whether the
    // suite's comparison after an abort is sound then.
    let all = scenarios(judge).into_iter();
    let own = scenario("branches", judge).request("Solve it.").request("And this.");
    assert_conforms(pattern, all.chain([own]).collect()).await;
    let branches = || {
        let one = [Script::text("One."), score(3)];
        let two = [look(), Script::text("Two."), score(9)];
        one.into_iter().chain(two).chain([Script::text("Three."), score(1)])
    };
    let scenario = ScriptedSession::new(branches().chain(branches()));
    let two = scenario.request("Solve it.").request("And this.");
    assert_survives_crashes(pattern, two).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let replies = [
        Script::text("One."),
        score(3),
        look(),
        Script::text("Two."),
        score(9),
        Script::text("Three."),
        score(1),
    ];
    crate::cassettes::assert_is_recorded(pattern, replies, &["Solve it."]).await;
}
