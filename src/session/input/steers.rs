//! Steers for sub-agents, which the session at the root forwards.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{InputError, MemoryError};
use crate::event::action::call_of_child;
use crate::event::input::InputEvent;
use crate::log::entry::LogEntry;
use crate::log::store::SessionStore;
use crate::message::{CallId, InputId};
use crate::session::input::command::{self, InputCommand, Receipt};
use crate::session::journal::Journal;
use crate::session::sub_agents::children::Children;
use crate::session::sub_agents::tree::Tree;

/// Forwards a steer to the sub-agent that works for its call. The sender gets the answer of the
/// sub-agent's session. A refusal is recorded in the mailbox of `root`, where the sender may have
/// posted the steer.
pub(crate) fn steer(
    input: InputCommand,
    root: Arc<str>,
    children: &Children,
    tree: &Tree,
    journal: &Journal,
) {
    let InputCommand { event, id, ack, received, waits, .. } = input;
    let InputEvent::SteerTo { call, prompt } = event else { return };
    let (child_ack, answer) = oneshot::channel();
    let event = InputEvent::Steer(prompt);
    let child_id = id.clone();
    let steer = InputCommand { event, id: child_id, ack: child_ack, caller: None, received, waits };
    let is_sent = children.steer(&call, Box::new(steer));
    let store = tree.store.clone();
    let (memory, from) = (journal.memory().clone(), journal.written());
    tokio::spawn(async move {
        let answer = match is_sent {
            true => answer.await.unwrap_or(Err(InputError::Gone)),
            false => delivered(store, root, call, id.as_ref()).await,
        };
        match answer {
            Err(why) if why.is_refusal() && !(waits && why.is_full()) => {
                command::refuse(id, ack, why, memory, from).await;
            }
            answer => drop(ack.send(answer)),
        }
    });
}

/// Confirms a steer whose sub-agent does not work, if the log of the sub-agent has it: the process
/// that forwarded it may have been killed before it wrote the receipt.
async fn delivered(
    store: Option<Arc<dyn SessionStore>>,
    mut session: Arc<str>,
    call: CallId,
    id: Option<&InputId>,
) -> Result<Receipt, InputError> {
    let none = InputError::NoSubAgent(call.clone());
    let (Some(store), Some(id)) = (store, id) else { return Err(none) };
    let mut next = Some(call);
    loop {
        let entries = match store.read(&session, 0).await {
            Err(MemoryError::NoSession(_)) => return Err(none),
            entries => entries?,
        };
        let Some(call) = next else {
            let is_known = entries.iter().any(|entry| entry.input() == Some(id));
            return if is_known { Ok(Receipt::new(id.clone())) } else { Err(none) };
        };
        let child = entries.iter().rev().find_map(|entry| match entry {
            LogEntry::ChildStarted { call: outer, session, .. } => {
                let inner = call_of_child(&call, outer).map(CallId::from);
                (*outer == call || inner.is_some()).then(|| (session.clone(), inner))
            }
            _ => None,
        });
        let Some(child) = child else { return Err(none) };
        (session, next) = child;
    }
}
