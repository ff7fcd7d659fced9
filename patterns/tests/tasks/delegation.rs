//! Task 7, second form: a pattern gives three sub-agents a task and reads their answers as values;
//! then another pattern answers.

use crate::family::{Offer, TASK};

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::session::Call;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

struct BestOffer<P> {
    agents: [&'static str; 3],
    then: P,
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for BestOffer<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        let calls = self.agents.map(|agent| Call::child(agent, TASK).key(agent).hidden());
        let answers = step.call_all(calls).await?.ok_or(StepEnd::AwaitingAction)?;
        let offers = answers.iter().filter_map(|answer| answer.output::<Offer>().ok());
        let best = offers.min_by_key(|offer| offer.price);
        if step.state::<bool>("is_reported").is_none() {
            step.set_state("is_reported", true)?;
            step.remember(UserMessage::from(format!("The best offer is {best:?}."))).await?;
        }
        // [/essential]
        self.then.next_step(step).await
    }
}
// [/pattern]

use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel, ScriptedSession, TestTool};
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::PiPattern;
use serde_json::json;

use crate::family::{self, Family, NAMES, price, run_with_approvals};
use crate::kit;

fn pattern() -> BestOffer<PiPattern> {
    BestOffer { agents: NAMES, then: PiPattern }
}

fn build(family: &Family) -> AgentBuilder {
    let reply = |_: &_| Script::text("I take it.").usage(Usage::new(100, 10));
    let agent = GenericAgent::builder(ScriptedModel::new([]).reply_with(reply), pattern());
    NAMES.iter().fold(agent, |agent, name| agent.child(*name, "Offers lamps.", family.child(name)))
}

#[tokio::test(start_paused = true)]
async fn each_approval_is_decided_at_the_root_while_others_wait_and_work() {
    let texts = run_with_approvals(build, 1).await;
    let best = Offer { agent: "bob".into(), price: price("bob") };
    let last = [format!("The best offer is {:?}.", Some(best)), "I take it.".into()];
    assert!(texts.ends_with(&last), "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn it_survives_a_crash_at_every_pair_of_cuts() {
    family::assert_survives_crashes(build).await;
}

/// Adds tools in place of the sub-agents: one answers, one needs an approval, one asks the user.
/// The suite knows only one session, and can run the pattern with them.
fn with_stand_ins(agent: AgentBuilder) -> AgentBuilder {
    let offer = |name| json!({ "agent": name, "price": price(name) }).to_string();
    let [alice, bob, carol] = NAMES.map(|name| TestTool::new(name).answers(offer(name)));
    let [alice, bob] =
        [alice, bob].map(|tool| tool.effect(loopwright_core::tool::Effect::Idempotent));
    agent
        .tool(alice.spec(|spec| spec.approval(loopwright_core::tool::Approval::Never)))
        .tool(bob)
        .tool(carol.suspends("login"))
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let scenarios = kit::scenarios(|_| json!(null)).into_iter();
    let scenarios = scenarios.map(|scenario| scenario.agent(|agent, _| with_stand_ins(agent)));
    kit::assert_conforms(pattern, scenarios.collect()).await;
    let agent = |model: ScriptedModel| with_stand_ins(GenericAgent::builder(model, pattern()));
    let two =
        ScriptedSession::new(["One.", "Two."].map(Script::text)).request("One?").request("Two?");
    let report = loopwright_core::testing::crash_at_every_append(agent, two).await.unwrap();
    assert_eq!((report.requests, report.compared), (2, report.appends), "{report}");
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::family::assert_is_recorded(build).await;
}
