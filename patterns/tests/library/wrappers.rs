//! Patterns that plan, judge, and call tools from text.

use async_trait::async_trait;
use loopwright_core::event::RunStatus;
use loopwright_core::limits::{Budget, Limit};
use loopwright_core::log::LogEntry;
use loopwright_core::message::UserMessage;
use loopwright_core::model::{ChatRequest, ToolChoice};
use loopwright_core::session::Profile;
use loopwright_core::testing::{Harness, Script, ScriptedModel, TestTool};
use loopwright_core::{
    AgentBuilder, Ask, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError,
};
use loopwright_patterns::{
    Bounded, FirstCall, Graph, Next, PiPattern, PlanExecute, ReAct, Reflect,
};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

#[tokio::test(start_paused = true)]
async fn the_judge_and_the_planner_have_their_own_profiles() {
    let verdict = json!({ "is_good": true, "reason": "" }).to_string();
    let plan = json!({ "steps": [] }).to_string();
    let (judge, planner) =
        (ScriptedModel::new([Script::text(&verdict)]), ScriptedModel::new([Script::text(&plan)]));
    let named = (judge.clone(), planner.clone());
    let pattern = PlanExecute::new(PiPattern).planner(Profile::new().model("planner"));
    let role = Profile::new().model("judge").system("You judge.");
    let pattern = Reflect::new("Be brief.", pattern).judge(role);
    let harness = Harness::new(pattern, [Script::text("Done.")], |agent| {
        agent.system("You work.").model_named("judge", named.0).model_named("planner", named.1)
    });
    let harness = harness.await;
    assert_eq!(harness.handle.prompt("Work.").await.unwrap().text, "Done.");
    assert_eq!(&*judge.requests()[0].system, "You judge.");
    assert_eq!(&*planner.requests()[0].system, "You work.");
    assert!(judge.requests()[0].messages.last().unwrap().text().ends_with("Be brief."));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_sent_back_as_often_as_the_rounds_allow() {
    let verdict = json!({ "is_good": false, "reason": "It is too short." }).to_string();
    let replies = ["One.", &verdict, "Two.", &verdict, "Three."].map(Script::text);
    let pattern = Reflect::new("Be long.", PiPattern).rounds(2);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("Write.").await.unwrap().text, "Three.");
    assert_eq!(harness.model.requests().len(), 5);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_action_in_a_text_is_a_call_and_its_result_an_observation() {
    let replies = [
        "I look.\nAction: look\nAction Input: {\"city\": \"Oslo\"}",
        "Action: fly\nAction Input: nowhere",
        "Final Answer: rain",
    ];
    let options = |agent: loopwright_core::AgentBuilder| {
        agent.system("You help.").tool(TestTool::new("look").answers("rain"))
    };
    let harness = Harness::new(ReAct, replies.map(Script::text), options).await;
    assert_eq!(harness.handle.prompt("Weather?").await.unwrap().text, "Final Answer: rain");
    let transcript = harness.transcript().await;
    let calls: Vec<_> = transcript.iter().filter(|line| line.starts_with("R:")).collect();
    assert_eq!(calls, ["R:look/Ok"]);
    assert!(transcript.contains(&"U:Observation: There is no tool `fly`.".to_owned()));
    assert!(transcript.contains(&"U:Observation: rain".to_owned()), "{transcript:?}");
    let requests = harness.model.requests();
    assert!(requests[0].system.starts_with("You help.\n\nTo use a tool"));
    assert!(requests[0].system.contains("\nlook: "));
    assert!(requests.iter().all(|request| request.tools.iter().next().is_none()));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn plans_and_judgements_conform() {
    let own = || scenario("two of them", value).request("Please look.").request("Please pay.");
    let all = || scenarios(value).into_iter().chain([own()]).collect();
    assert_conforms(|| PlanExecute::new(PiPattern), all()).await;
    assert_conforms(|| Reflect::new("Be long.", PiPattern), all()).await;
}

#[tokio::test(start_paused = true)]
async fn a_forced_first_call_conforms() {
    let required = || FirstCall::new(ToolChoice::Required, PiPattern);
    assert_conforms(required, scenarios(value)).await;
}

/// Returns a call of `look` until no tool may be called, then an answer.
fn looks(request: &ChatRequest) -> Script {
    match request.tool_choice {
        ToolChoice::None => Script::text("Two of ten."),
        _ => Script::calls([("a", "look", json!({}))]),
    }
}

fn bounded(turns: u32) -> Bounded<PiPattern> {
    Bounded::new("look", Budget::default().turns(turns), PiPattern).instruction("How many?")
}

/// C489: When the budget is used up but for one request, the pattern answers, without tools. A
/// pattern around it goes on.
#[tokio::test(start_paused = true)]
async fn a_bounded_pattern_answers_at_its_budget() {
    let graph = Graph::<()>::new("count")
        .pattern("count", bounded(3))
        .edge("count", |_, _| Next::To("report"))
        .node("report", |step, _| {
            Box::pin(async move {
                let ask = Ask::new().also(UserMessage::from("Report.")).tools([""; 0]);
                step.ask_with(ask.tool_choice(ToolChoice::None)).await?.or_end()?;
                Ok(None)
            })
        });
    let model = ScriptedModel::new([]).reply_with(looks);
    let tool = TestTool::new("look");
    let agent = GenericAgent::builder(model.clone(), graph).tool(tool.clone()).build().unwrap();
    let outcome = agent.session().await.unwrap().prompt("Look at all ten.").await.unwrap();
    assert_eq!((outcome.end, outcome.limit, outcome.requests), (RunStatus::Done, None, 4));
    assert_eq!(tool.ran(), 2);
    let requests = model.requests();
    let asked = requests[2].messages.last().unwrap().text();
    assert_eq!(asked, "[This part of the work is at its limit. How many?]");
    assert_eq!(requests[3].messages.last().unwrap().text(), "Report.");
}

/// C489: Wherever a crash cuts the log, the answer comes, after at most one request more: a lost
/// one.
#[tokio::test(start_paused = true)]
async fn a_bounded_pattern_answers_after_a_crash() {
    let open = async || {
        let tool = |agent: AgentBuilder| agent.tool(TestTool::new("look"));
        let harness = Harness::new(bounded(3), [], tool).await;
        drop(harness.model.clone().reply_with(looks)); // of all clones
        harness
    };
    let whole = open().await;
    assert_eq!(whole.handle.prompt("Look.").await.unwrap().text, "Two of ten.");
    let log = whole.memory.entries();
    let began = log.iter().position(|entry| matches!(entry, LogEntry::RunStarted { .. }));
    for cut in began.unwrap() + 1..log.len() {
        let harness = open().await.restart_from(log[..cut].to_vec()).await;
        let outcome = harness.handle.continue_run().await.unwrap();
        let at = format!("{cut} of {}: {outcome:?}", log.len());
        assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "Two of ten."), "{at}");
        assert!(outcome.requests <= 4, "{at}");
        harness.check().await;
    }
}

/// C489: The pattern conforms, also one that answers at the limits of the run.
#[tokio::test(start_paused = true)]
async fn a_bounded_pattern_conforms() {
    assert_conforms(|| bounded(50), scenarios(value)).await;
    let answering = scenarios(value).into_iter().map(|scenario| scenario.answers_at_limit());
    assert_conforms(|| Answering(PiPattern), answering.collect()).await;
}

/// Answers at the limits of the run.
struct Answering<P>(P);

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Answering<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        match self.0.next_step(&mut step.with_budget(step.left().keep(1))).await {
            Err(StepError::Limit(reached)) if matches!(reached.limit, Limit::Part(_)) => {
                let text = UserMessage::from("Sum up.");
                let ask = Ask::new().tool_choice(ToolChoice::None).also(text);
                step.ask_with(ask).await?.finish()
            }
            ended => ended,
        }
    }
}
