//! [`Distil`]: a pattern that stores facts about the user.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::message::{AssistantMessage, MessageId, MessageKind};
use loopwright_core::session::Profile;
use loopwright_core::{
    Ask, BehaviorPattern, ChatModel, Message, Principal, StepContext, StepEnd, StepError, hex,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::distil_command::{self, HideCommands};
use super::distil_request::{self, Facts, SYSTEM};
use super::error::LongTermError;
use super::fact::{Fact, NewFact, Scope};
use super::facts;
use super::store::LongTerm;

/// The key of the detached request, and of the value that a session keeps.
const KEY: &str = "loopwright.distil";

/// The key of the value that marks this request's command as answered.
const ANSWERED: &str = "loopwright.distil.answered";

/// A pattern that distils facts about the user from the conversation, and stores them, after
/// another pattern has answered a request.
///
/// It sends one detached request with everything the user and the assistant have written since the
/// last one, without the results of tools and without messages that the pattern has removed. A user
/// message that the pattern itself writes counts as the user's. The request counts against the
/// limits of the run. An error of the model ends the run, after the answer, and `Continue` resumes
/// it. An error of the file is logged, and the next request includes the same messages.
///
/// The facts are about the [principal](loopwright_core::Principal) of the request. Without
/// one, no request is sent, unless the host has set a [scope](Distil::scope). If several principals
/// use a session, facts about one of them are distilled only from messages since the last request
/// of another one; steers and follow-ups count as messages of the run's principal. Facts are stored
/// once, even if a crash cuts the run off at any point.
///
/// With [`on_command`](Distil::on_command) it distils only on demand: when the user asks for it, or
/// when the host ends the session ([`distil_session`](super::distil_session)).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, Principal, RunContext};
/// use loopwright_memory::long_term::{Distil, LongTerm, Scope};
/// use loopwright_patterns::PiPattern;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("facts.db");
///
/// let memory = LongTerm::open(path)?;
/// let facts = r#"{ "facts": ["The user's cat is called Minka."] }"#;
/// let model = ScriptedModel::new([Script::text("What a name."), Script::text(facts)]);
/// let agent = GenericAgent::builder(model, Distil::new(PiPattern, memory.clone())).build()?;
/// let (handle, _events) = agent.run(RunContext::new().with(Principal::new("ann"))).await?;
/// handle.prompt("My cat is called Minka.").await?;
/// assert_eq!(memory.facts(&[Scope::user("ann")], 0, 10).await?.len(), 1);
/// # Ok(()) }
/// ```
pub struct Distil<P> {
    pattern: P,
    memory: LongTerm,
    scope: Option<Scope>,
    every: u32,
    model: Option<String>,
    on_command: bool,
}

/// The outcome of an attempt to distil.
enum Distilled {
    /// The user has written nothing since the last time.
    NothingNew,
    /// This many facts were stored.
    Stored(usize),
    NotStored(LongTermError),
    /// A steer interrupted it before the facts were stored.
    Interrupted,
}

/// The value that the session keeps.
#[derive(Default, Serialize, Deserialize)]
struct State {
    /// A digest of the scope for facts of the next messages, if they have one.
    owner: Option<String>,
    /// The last message that has been processed.
    last: MessageId,
}

impl<P: BehaviorPattern> Distil<P> {
    /// Wraps a pattern.
    pub fn new(pattern: P, memory: LongTerm) -> Self {
        Distil { pattern, memory, scope: None, every: 1, model: None, on_command: false }
    }

    /// Sets the number of user messages since the last time that starts a request. Defaults to 1:
    /// facts are distilled after each request.
    pub fn every(mut self, messages: u32) -> Self {
        self.every = messages.max(1);
        self
    }

    /// Stores the facts in this scope instead of the principal's.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Sends the request to the agent's model of this name.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Distils only when a request is [`DISTIL_COMMAND`](super::DISTIL_COMMAND): it stores facts
    /// from all messages since the last time and answers with their number, without the other
    /// pattern. Requests to the model contain neither the command nor this answer.
    pub fn on_command(mut self) -> Self {
        self.on_command = true;
        self
    }

    /// Returns the scope of the facts, or `None` if neither the host nor a principal gives one.
    fn scope_of(&self, step: &StepContext<'_>) -> Option<Scope> {
        self.scope.clone().or_else(|| Scope::of(step.get::<Principal>()))
    }

    /// Skips the messages so far if they belong to another scope than this run. Called before
    /// anything can end the run.
    fn follow_owner(&self, step: &mut StepContext<'_>) -> Result<(), StepError> {
        let owner = self.scope_of(step).map(|scope| digest(&scope.to_string()));
        let State { owner: before, .. } = step.session_state(KEY).unwrap_or_default();
        if owner == before {
            return Ok(());
        }
        let last = step.messages().next_back().map(|message| message.id).unwrap_or_default();
        step.set_session_state(KEY, State { owner, last })
    }

    /// Distils the messages since the last time, if at least `min` of them are the user's.
    async fn distil(
        &self,
        step: &mut StepContext<'_>,
        scope: &Scope,
        min: u32,
    ) -> Result<Distilled, StepError> {
        let State { last, .. } = step.session_state(KEY).unwrap_or_default();
        // Ids grow; the last message may have been removed since.
        let mut new: Vec<_> = step.messages().rev().take_while(|m| m.id > last).cloned().collect();
        let Some(last) = new.first().map(|message| message.id) else {
            return Ok(Distilled::NothingNew);
        };
        // Messages before the user's first one are the answer to the last command.
        while new.pop_if(|message| !matches!(message.body, MessageKind::User(_))).is_some() {}
        if self.on_command {
            new.reverse();
            new = distil_command::without_commands(&new);
            new.reverse();
        }
        let of_user = new.iter().filter(|m| matches!(m.body, MessageKind::User(_)));
        if of_user.count() < min as usize {
            return Ok(Distilled::NothingNew);
        }
        let Some(text) = distil_request::transcript(new.iter().map(|m| &**m)) else {
            return Ok(Distilled::NothingNew);
        };
        let key = store_key(scope, step.session_id(), last, &text.text());
        let mut ask = Ask::detached().key(KEY).system(SYSTEM).messages([text.into()]);
        if let Some(model) = &self.model {
            ask = ask.model(model);
        }
        let facts: Facts = step.ask_for(ask).await?;
        let facts = source(facts.valid(), step.session_id(), &new);
        Ok(match step.wait_for(self.memory.remember_once(key, scope, facts)).await? {
            Some(Ok(stored)) => {
                let owner = Some(digest(&scope.to_string()));
                step.set_session_state(KEY, State { owner, last })?;
                Distilled::Stored(stored.len())
            }
            Some(Err(error)) => Distilled::NotStored(error),
            None => Distilled::Interrupted,
        })
    }

    /// Carries out the command, and answers it.
    async fn answer_command(&self, step: &mut StepContext<'_>) -> Result<(), StepError> {
        let stored = match self.scope_of(step) {
            None => None,
            Some(scope) => loop {
                match self.distil(step, &scope, 1).await? {
                    Distilled::NothingNew => break Some(0),
                    Distilled::Stored(facts) => break Some(facts),
                    Distilled::NotStored(error) => return Err(StepError::pattern(error)),
                    Distilled::Interrupted => {} // the steer is delivered after the answer
                }
            },
        };
        let answer = match stored {
            None => "It is not known who you are, so nothing was remembered.".to_owned(),
            Some(0) => "There was nothing new to remember.".to_owned(),
            Some(1) => "1 fact was remembered: `/memory` lists it.".to_owned(),
            Some(facts) => format!("{facts} facts were remembered: `/memory` lists them."),
        };
        step.set_state(ANSWERED, true)?;
        step.remember(AssistantMessage::from(answer)).await?;
        Ok(())
    }

    /// Carries out a command, or leaves the request to the other pattern.
    async fn next_step_on_command(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        if step.user_request().is_some_and(|message| distil_command::is_command(message)) {
            step.take_input().await?;
            if step.state::<bool>(ANSWERED).is_none() {
                self.answer_command(step).await?;
            }
            if step.is_answered() && !step.has_messages() {
                return Ok(StepEnd::Done);
            }
        }
        let profile = Profile::new().hook(HideCommands);
        self.pattern.next_step(&mut step.with_profile(profile)).await
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Distil<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.pattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        self.follow_owner(step)?;
        if self.on_command {
            return self.next_step_on_command(step).await;
        }
        loop {
            let end = self.pattern.next_step(step).await?;
            if end != StepEnd::Done || !step.is_answered() {
                return Ok(end);
            }
            let Some(scope) = self.scope_of(step) else { return Ok(end) };
            match self.distil(step, &scope, self.every).await? {
                Distilled::NothingNew => return Ok(end),
                Distilled::Stored(_) => {}
                Distilled::NotStored(error) => {
                    tracing::warn!(%error, "distilled facts are not stored");
                }
                Distilled::Interrupted => continue, // the pattern takes the steer
            }
            if !step.has_messages() {
                return Ok(end);
            }
        }
    }
}

impl LongTerm {
    /// Distils facts from messages with a model, and stores them: for conversations outside any
    /// session, such as imported ones. Returns the stored facts.
    ///
    /// All messages must belong to `scope`. It sends one request with everything the user and the
    /// assistant have written, without the results of tools; of a conversation of more than 60,000
    /// bytes, it sends the end. The request is in no log, and no budget counts it. [`Distil`] does
    /// the same within the runs of a session, and [`distil_session`](super::distil_session) when a
    /// session ends.
    ///
    /// # Errors
    ///
    /// Returns [`LongTermError::Model`] if the model fails, [`LongTermError::Reply`] if its reply
    /// cannot be read, and the errors of [`LongTerm::remember`].
    pub async fn distil(
        &self,
        model: &dyn ChatModel,
        scope: &Scope,
        messages: &[Arc<Message>],
    ) -> Result<Vec<Fact>, LongTermError> {
        scope.check()?;
        let newest_first = messages.iter().rev().map(|message| &**message);
        let Some(text) = distil_request::transcript(newest_first) else { return Ok(Vec::new()) };
        let found = distil_request::ask(model, text).await?;
        let (new, scope, now) = (found.valid(), scope.clone(), self.environment.now());
        let store = move |connection: &_| {
            new.iter().map(|new| facts::remember(connection, &scope, new, now)).collect()
        };
        let stored: Vec<Fact> = self.file.write(store).await?;
        self.embed(&stored).await;
        Ok(stored)
    }
}

/// Returns the key under which the facts of these messages are stored only once.
fn store_key(scope: &Scope, session: &str, last: MessageId, text: &str) -> String {
    digest(&format!("{KEY}\0{scope}\0{session}\0{}\0{text}", last.0))
}

fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text))
}

/// Adds the session and the user's last message to facts.
fn source(facts: Vec<NewFact>, session: &str, messages: &[Arc<Message>]) -> Vec<NewFact> {
    let of_user = messages.iter().find(|m| matches!(m.body, MessageKind::User(_)));
    let add = |fact: NewFact| {
        let fact = fact.session(session);
        match of_user {
            Some(message) => fact.message(message.id),
            None => fact,
        }
    };
    facts.into_iter().map(add).collect()
}
