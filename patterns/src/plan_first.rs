//! [`PlanFirst`]: nothing is changed before the user has accepted a plan.

use async_trait::async_trait;
use loopwright_core::hooks::{HookContext, Hooks, RequestInfo};
use loopwright_core::message::UserMessage;
use loopwright_core::session::{Profile, QuestionStatus, Reply};
use loopwright_core::tool::{Effect, Question, ToolSpec};
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};

use crate::PiPattern;

/// A pattern that makes a plan with read-only tools, asks the user whether to carry it out, and
/// only then lets another pattern work.
///
/// ```text
/// take_input ─▶ plan, with tools that read ─▶ carry it out? ── yes ─▶ then ─▶ done
///                 ▲                                │ no: done
///                 └── another message, or a reason ┘
/// ```
///
/// [`PiPattern`] makes the plan. The model is offered only tools with [`Effect::ReadOnly`]; calls
/// of others are refused. The question is a pending action, so the plan can be accepted days later,
/// from another process. If the user declines with a reason, or sends another message instead of an
/// answer, the pattern makes another plan. By default each request of the user begins with a plan;
/// with [`PlanFirst::on_command`], only requests that ask for one.
///
/// From: the plan modes of coding agents.
///
/// **Use it** where the user wants to see what an agent is going to do before it does anything.
/// **Do not use it** instead of approvals: an accepted plan approves no call. If it should, let the
/// tools run without approval
/// ([`AgentBuilder::approve`](loopwright_core::AgentBuilder::approve)).
///
/// ```
/// use loopwright_core::event::{Decision, Provided};
/// use loopwright_core::testing::{Harness, Script};
/// use loopwright_patterns::{PiPattern, PlanFirst};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = ["1. Delete the old files.", "They are deleted."].map(Script::text);
/// let harness = Harness::new(PlanFirst::new(PiPattern), replies, |agent| agent).await;
/// harness.handle.prompt("Tidy up.").await.unwrap();
/// harness.resolve(0, Decision::Provide(Provided::Input("yes".into()))).await.unwrap();
/// harness.handle.wait_for_idle().await;
/// assert_eq!(harness.transcript().await.last().unwrap(), "A:They are deleted./Stop");
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PlanFirst<P> {
    command: Option<String>,
    then: P,
}

const PLAN: &str = "Do not change anything yet. Look at what you need to know, then answer with a \
    plan: what you would do, in numbered steps. The user decides whether it is carried out.";

struct ReadOnlyTools;

impl Hooks for ReadOnlyTools {
    fn offers_tool(&self, _: &HookContext, _: &RequestInfo<'_>, tool: &ToolSpec) -> bool {
        tool.effect == Effect::ReadOnly
    }
}

impl<P: BehaviorPattern> PlanFirst<P> {
    /// Creates a pattern that plans, and works with `then` once the plan is accepted.
    pub fn new(then: P) -> Self {
        PlanFirst { command: None, then }
    }

    /// Plans only requests whose first word is this one, such as `/plan`. The other pattern handles
    /// all other requests alone.
    pub fn on_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for PlanFirst<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let text = step.user_request().map(|message| message.text()).unwrap_or_default();
        let first = text.split_whitespace().next();
        let is_planned = self.command.is_none() || self.command.as_deref() == first;
        // This includes a request that was sent instead of an answer.
        let is_planned = is_planned || step.session_state("plan_first") == Some(true);
        while is_planned && step.state("plan_first") != Some(true) {
            let planner = Profile::new().instruction(PLAN).hook(ReadOnlyTools);
            let end = PiPattern.next_step(&mut step.with_profile(planner)).await?;
            let plan = step.last_reply().filter(|_| end == StepEnd::Done);
            let Some(plan) = plan.as_ref().and_then(Reply::message) else { return Ok(end) };
            let key = format!("plan_first-{}", plan.id.0); // each plan has its question
            let question = Question::choice("Carry out this plan?", ["yes", "no"]);
            step.set_session_state("plan_first", true)?;
            let asked = step.question(&key, question).await?;
            let is_open = (asked == QuestionStatus::Waiting).then_some(true);
            step.set_session_state("plan_first", is_open)?;
            match asked {
                QuestionStatus::Waiting => return Ok(StepEnd::AwaitingAction),
                QuestionStatus::Answered(answer) if answer == "yes" => {
                    step.set_state("plan_first", true)?;
                    step.remember(UserMessage::from("Carry out the plan.")).await?;
                }
                QuestionStatus::Declined(why) if !why.trim().is_empty() => {
                    step.remember(UserMessage::from(why)).await?;
                }
                _ if step.has_messages() => {}
                _ => return Ok(StepEnd::Done),
            }
        }
        self.then.next_step(step).await
    }
}
