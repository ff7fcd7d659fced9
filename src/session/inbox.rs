//! What a session hears, at rest and while a verb waits: inputs become items of the log.

use std::sync::Arc;

use crate::error::{InputError, StepError};
use crate::extensions::Extensions;
use crate::log::calls::Phase;
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, Role};
use crate::log::input::{ActionResult, Decision, InputEvent, Prompt, Provided, QueueKind, Urgency};
use crate::message::InputId;
use crate::session::state::AgentState;
use crate::session::{Input, Mail, Partial, Receipt, Session, Wish};
use crate::tool::schema::Schema;

/// Requests that may wait for a run of their own.
pub(crate) const MOST_REQUESTS: usize = 32;

impl Session {
    /// Takes one message in; says how urgent it is, if it is a steer.
    pub(crate) async fn hear(&mut self, mail: Mail) -> Result<Option<Urgency>, StepError> {
        match mail {
            Mail::State(ack) => drop(ack.send(self.state())),
            Mail::Subscribe(subscriber) => self.hub.subscribe(subscriber),
            Mail::Join(subscriber, ack) => {
                let overlay = self.overlay();
                self.hub.join(subscriber, overlay);
                let _ = ack.send(self.fold.len);
            }
            Mail::Input(input) => {
                let urgency = self.take_in(*input);
                self.flush().await?;
                return Ok(urgency);
            }
        }
        Ok(None)
    }

    /// All that has come so far. A failure keeps nobody behind it from being answered.
    pub(crate) async fn hear_all(&mut self) -> Result<(), StepError> {
        let mut result = self.flush().await; // ids are made, and known ones found, by what is in the log
        while let Ok(mail) = self.mail.try_recv() {
            result = result.and(self.hear(mail).await.map(drop));
        }
        result
    }

    /// Awaits anything else while the session goes on hearing.
    pub(crate) async fn wait_for<F: Future + Send>(
        &mut self,
        work: F,
    ) -> Result<F::Output, StepError> {
        self.flush().await?; // as in `hear_all`
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! { biased;
                Some(mail) = self.mail.recv() => { self.hear(mail).await?; }
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Stages what an input asks for. Its receipt goes out when that is durable.
    fn take_in(&mut self, input: Input) -> Option<Urgency> {
        let Input { event, ack } = input;
        let mut urgency = None;
        let staged = match event {
            InputEvent::UserRequest(prompt) => {
                self.queue(prompt, QueueKind::Request, Urgency::default())
            }
            InputEvent::FollowUp(prompt) => {
                self.queue(prompt, QueueKind::FollowUp, Urgency::default())
            }
            InputEvent::Steer(prompt) => {
                let how = prompt.urgency.unwrap_or(self.config.urgency);
                let is_known = prompt.id.as_ref().is_some_and(|id| self.fold.has_seen(id));
                let queued = self.queue(prompt, QueueKind::Steering, how);
                urgency = (queued.is_ok() && !is_known).then_some(how); // what changes nothing cuts nothing off
                queued
            }
            InputEvent::Compact(_) if self.config.compaction.is_none() => {
                Err(InputError::NoCompaction)
            }
            // Answered when it is done: before the next request, or after the run.
            InputEvent::Compact(instructions) => {
                self.compacting
                    .wishes
                    .push_back(Wish { instructions: instructions.map(Into::into), ack });
                return None;
            }
            InputEvent::ExternalActionResult(answer) => self.decide(answer),
            InputEvent::ClearQueues => {
                let both = |w: &&crate::log::queue::Waiting| w.lane != QueueKind::Request;
                let taken_back =
                    self.fold.queue.iter().filter(both).map(|w| w.message.text()).collect();
                let inputs: Vec<InputId> =
                    self.fold.queue.iter().filter(both).map(|w| w.input.clone()).collect();
                if !inputs.is_empty() {
                    self.stage(LogEntry::Withdrawn { inputs });
                }
                Ok(Receipt { taken_back, ..Receipt::of(self.fold.make_input_id()) })
            }
            // The session task keeps these to itself.
            InputEvent::Continue(_) | InputEvent::Abort | InputEvent::Reset => {
                Err(InputError::Busy)
            }
        };
        match staged {
            Ok(receipt) => self.when_written(move |written| {
                let _ = ack.send(written.map(|()| receipt).map_err(InputError::Memory));
            }),
            Err(refused) => drop(ack.send(Err(refused))),
        }
        urgency
    }

    /// Stages a message for a queue; one that came before is acknowledged and changes nothing.
    pub(crate) fn queue(
        &mut self,
        prompt: Prompt,
        lane: QueueKind,
        urgency: Urgency,
    ) -> Result<Receipt, InputError> {
        let input = prompt.id.unwrap_or_else(|| self.fold.make_input_id());
        let receipt = Receipt::of(input.clone());
        if self.fold.has_seen(&input) {
            return Ok(receipt);
        }
        if lane == QueueKind::Request
            && self.fold.queue.lane(QueueKind::Request).count() >= MOST_REQUESTS
        {
            return Err(InputError::Full(MOST_REQUESTS));
        }
        if let Some(output) = &prompt.output {
            Schema::compile(&output.schema).map_err(InputError::OutputSchema)?;
        }
        if lane == QueueKind::Request {
            self.riders.insert(input.clone(), prompt.extensions);
        }
        let message = self.message(prompt.message);
        self.stage(LogEntry::Queued { input, lane, urgency, message, output: prompt.output });
        Ok(receipt)
    }

    fn decide(&mut self, answer: ActionResult) -> Result<Receipt, InputError> {
        let input = answer.id.clone().unwrap_or_else(|| self.fold.make_input_id());
        let receipt = Receipt::of(input.clone());
        if self.fold.has_seen(&input) {
            return Ok(receipt);
        }
        let decision = self.check_answer(&answer)?;
        self.stage(LogEntry::Decided {
            input,
            call: answer.call,
            decision: Arc::new(decision),
            by: answer.by,
        });
        Ok(receipt)
    }

    /// The decision as it will be carried out, or why it is refused.
    fn check_answer(&self, answer: &ActionResult) -> Result<Decision, InputError> {
        let call = self.fold.call(&answer.call);
        let Some(Phase::Awaiting(action)) = call.map(|c| &c.phase) else {
            return Err(InputError::NotPending(answer.call.clone()));
        };
        if action.digest != answer.digest {
            return Err(InputError::DigestDiffers(answer.call.clone()));
        }
        match (&answer.decision, &action.need) {
            (Decision::ApproveWith(edited), None) => {
                let valid = self.tools.validate_value(&action.name, edited.clone());
                valid.map(Decision::ApproveWith).map_err(InputError::BadArguments)
            }
            (Decision::ApproveWith(_), Some(_)) => Err(InputError::BadDecision(
                "the tool has seen its arguments already: answer what it asks, or deny".into(),
            )),
            (Decision::Provide(Provided::Input(_)), None) => Err(InputError::BadDecision(
                "the call waits for a confirmation, not for data: approve it, deny it, or give its result".into(),
            )),
            (decision, _) => Ok(decision.clone()),
        }
    }

    /// The texts of all that waits.
    pub(crate) fn waiting(&self) -> Vec<String> {
        self.fold.queue.iter().map(|w| w.message.text()).collect()
    }

    /// The host's values of a request whose run begins.
    pub(crate) fn take_rider(&mut self, input: &InputId) -> Extensions {
        self.riders.remove(input).unwrap_or_default()
    }

    /// What has been told of the reply that streams and by the tools that run, merged.
    fn overlay(&self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        if let Some(Partial { id: message_id, reply, .. }) = &self.partial {
            let message_id = *message_id;
            events.push(AgentEvent::MessageStart { message_id, role: Role::Assistant });
            let told = reply.told().into_iter();
            events.extend(told.map(|update| AgentEvent::MessageUpdate { message_id, update }));
        }
        for (call, running) in &self.crew.running {
            let told = running.told.updates();
            events.extend(
                told.map(|update| AgentEvent::ToolExecutionUpdate { call: call.clone(), update }),
            );
        }
        events
    }

    /// A snapshot, for whoever asks.
    pub(crate) fn state(&self) -> AgentState {
        let lane = |lane| self.fold.queue.lane(lane).map(|w| w.message.clone()).collect();
        AgentState {
            session_key: self.id.clone(),
            system_prompt: self.config.system.clone(),
            model: self.config.model.info().id.clone(),
            thinking_level: self.config.thinking,
            messages: self.fold.history.clone(),
            tools: self.tools.list().to_vec(),
            is_running: self.fold.run.is_some() && !self.interrupted,
            is_streaming: self.partial.is_some(),
            streaming_message: self.partial.as_ref().map(|p| p.reply.so_far(p.model.id.clone())),
            settings: self.fold.settings.clone(),
            pending_tool_calls: self
                .fold
                .calls()
                .iter()
                .filter(|c| c.result.is_none())
                .map(|c| c.call.id.clone())
                .collect(),
            pending_actions: self.fold.pending().map(|action| (**action).clone()).collect(),
            error: self.fold.last_error.clone(),
            steering_queue: lane(QueueKind::Steering),
            steering_mode: self.config.steering_mode,
            follow_up_queue: lane(QueueKind::FollowUp),
            follow_up_mode: self.config.follow_up_mode,
            repaired: self.memory().repaired().map(Arc::from),
            interrupted_run: self.fold.run.filter(|_| self.interrupted),
        }
    }
}
