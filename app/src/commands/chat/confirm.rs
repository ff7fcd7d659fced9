//! Pending calls: each is shown to the user, and the decision is sent to the agent.

use loopwright_core::agent::InputError;
use loopwright_core::event::{ActionResult, Decision, ExternalAction, InputEvent, Provided};
use loopwright_core::tool::DecisionKind;
use loopwright_tools::protected_file;
use serde_json::Value;

use super::state::{Chat, Done, State};
use crate::answer::read_answer;
use crate::output;
use crate::stdin::Hidden;
use crate::wording;

/// The default reason for a denial.
const DEFAULT_DENIAL: &str = "the user said no";

const DECISIONS: &str = "\
y             run it
n [REASON]    do not run it, and send the reason to the agent";
const EDIT: &str = "\
e [JSON]      run it with these arguments instead";
const ALWAYS: &str = "\
a             run it, and this tool without approval from now on";

impl Chat {
    /// Asks for a decision on a call, unless the user has just allowed its tool. Always asks about
    /// calls that change protected files, and about calls of sub-agents, whose tools are their own.
    pub(super) async fn ask(&mut self, action: ExternalAction) -> Done {
        let protected = protected_file(&action.name, &action.arguments);
        let is_own = action.request.is_none() && action.path.is_empty();
        if is_own && protected.is_none() && self.allowed.has(&action.name) {
            return self.decide(action, Decision::Approve).await;
        }
        match action.question() {
            Some(question) => output::report_question(&action, &question),
            None => {
                output::notice(&format!("? {}", output::call(&action)));
                output::report_terms(&action);
            }
        }
        if let Some(protected) = protected {
            output::info(&protected);
        }
        self.state = self.deciding(action);
        if self.input_ended {
            self.leave_pending();
        } else {
            self.repeat_question();
        }
        Ok(())
    }

    /// Returns the state in which the next line resolves the action.
    fn deciding(&self, action: ExternalAction) -> State {
        match action.question() {
            Some(question) => {
                let hides = question.is_secret() && self.keyboard && !self.input_ended;
                State::Answering(action, hides.then(Hidden::new))
            }
            None => State::Deciding(action),
        }
    }

    /// Handles a line as the answer to a question. An invalid answer is not sent.
    pub(super) async fn answer(&mut self, action: ExternalAction, line: &str) -> Done {
        let Some(question) = action.question() else { return Ok(()) };
        match read_answer(&question, line.trim_end_matches(['\n', '\r'])) {
            Ok(answer) => self.decide(action, Decision::Provide(Provided::Input(answer))).await,
            Err(why) => {
                output::error(&format!("The answer was not sent: {}", wording::ended(&why)));
                self.repeat_question();
                Ok(())
            }
        }
    }

    /// Declines to answer a question.
    pub(super) async fn decline(&mut self, action: ExternalAction, reason: &str) -> Done {
        let reason = if reason.is_empty() { DEFAULT_DENIAL } else { reason };
        self.decide(action, Decision::Deny(reason.into())).await
    }

    /// Handles a line as a decision.
    pub(super) async fn decision(
        &mut self,
        action: ExternalAction,
        word: &str,
        rest: &str,
    ) -> Done {
        let edits = action.terms.allows(DecisionKind::ApproveWith);
        match (word.to_lowercase().as_str(), rest) {
            ("e" | "edit", _) if !edits => {
                output::error("The arguments of this call cannot be edited.");
                self.repeat_question();
                Ok(())
            }
            ("y" | "yes", "") => self.decide(action, Decision::Approve).await,
            ("n" | "no", "") => self.decide(action, Decision::Deny(DEFAULT_DENIAL.into())).await,
            ("n" | "no" | "n," | "no,", why) => {
                self.decide(action, Decision::Deny(why.to_owned())).await
            }
            ("a" | "always", "") if action.path.is_empty() => {
                self.allowed.add(&action.name);
                self.decide(action, Decision::Approve).await
            }
            ("e" | "edit", "") => {
                self.state = State::Editing(action);
                self.repeat_question();
                Ok(())
            }
            ("e" | "edit", json) => self.edit(action, json).await,
            _ => {
                output::info(DECISIONS);
                if edits {
                    output::info(EDIT);
                }
                if action.path.is_empty() {
                    output::info(ALWAYS);
                }
                self.repeat_question();
                Ok(())
            }
        }
    }

    /// Handles a line as the new arguments.
    pub(super) async fn edit(&mut self, action: ExternalAction, line: &str) -> Done {
        match serde_json::from_str::<Value>(line) {
            Ok(arguments) => self.decide(action, Decision::ApproveWith(arguments)).await,
            Err(why) => {
                output::error(&format!("The new arguments are not JSON: {why}."));
                self.state = State::Deciding(action);
                self.repeat_question();
                Ok(())
            }
        }
    }

    /// Sends the decision, which starts a run. If it is refused, the question is repeated.
    async fn decide(&mut self, action: ExternalAction, decision: Decision) -> Done {
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        let event = InputEvent::ExternalActionResult(result.source("terminal"));
        match self.send(event).await {
            Ok(()) => self.state = State::Running,
            Err(why @ (InputError::BadArguments(_) | InputError::BadDecision(_))) => {
                output::error(&format!("This decision was refused: {why}."));
                self.state = State::Running; // before input is hidden again, it must be shown
                self.state = self.deciding(action);
                self.repeat_question();
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }
}
