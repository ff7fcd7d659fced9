//! Work that kills each process that does it. It is held for a person.

use std::sync::Arc;

use crate::error::MemoryError;
use crate::event::input::QueueKind;
use crate::event::owner_note::{Held, OwnerNote};
use crate::log::entry::LogEntry;
use crate::log::session_log::SessionLog;
use crate::log::store::SessionStore;
use crate::session::Session;
use crate::session::input::command_queue::{CommandQueue, is_decision};
use crate::session::panics::without_panic;

/// Holds the work of a newly opened session if too many owners were lost. `continues` is set if the
/// session is about to continue a run. After a failure the session must do nothing: its work may be
/// what kills.
pub(crate) async fn hold_if_lost(
    session: &mut Session,
    continues: bool,
) -> Result<(), MemoryError> {
    let checked = check(session, continues).await;
    checked.inspect_err(|error| {
        tracing::error!(session = &*session.id, %error, "the session ends: its work may kill");
    })
}

async fn check(session: &mut Session, continues: bool) -> Result<(), MemoryError> {
    let state = &session.journal.state;
    let is_root = session.journal.parent().is_none();
    let Some(owners) = state.info.owners.lost_too_often(continues).filter(|_| is_root) else {
        return Ok(());
    };
    let (has_work, has_run) = (state.info.has_work(), state.info.run.is_some());
    let unread = unread(session).await?;
    if !has_work && unread == 0 || has_run && has_live_sub_agents(session).await? {
        return Ok(());
    }
    let held = Held { owners, unread };
    tracing::error!(session = &*session.id, "{held}");
    note(session, OwnerNote::Held(held)).await
}

/// Leaves held inputs in the mailbox, except for decisions by a person.
pub(crate) async fn guard_mailbox(session: &mut Session, commands: &mut CommandQueue) {
    let held = session.journal.state.info.held.filter(|held| held.unread > 0);
    let unread = commands.hold_mail(held.map(|held| held.unread));
    if let Some(held) = held.filter(|held| unread > held.unread) {
        // The next opening repeats it.
        let _ = note(session, OwnerNote::Held(Held { unread, ..held })).await;
    }
}

/// Notes that an idle owner takes an input from the mailbox, which may kill it.
pub(crate) async fn note_mail(session: &mut Session) {
    let state = &session.journal.state;
    if state.info.run.is_none() && !state.info.owners.takes_mail() {
        let _ = note(session, OwnerNote::TakesMail).await; // the write of the input fails as well
    }
}

/// Notes that the owner leaves in order, if the next one would otherwise count it as lost.
pub(crate) async fn note_left(session: &mut Session) {
    let state = &session.journal.state;
    if state.info.owners.would_lose(state.info.has_work()) {
        let _ = note(session, OwnerNote::Left).await; // otherwise it counts as lost
    }
}

/// Refuses the inputs in the mailbox, and stages the withdrawal of the held requests. The caller
/// handles an interrupted run. After a failure the work stays held.
pub(crate) async fn drop_held(
    session: &mut Session,
    commands: &mut CommandQueue,
) -> Result<(), MemoryError> {
    let journal = &mut session.journal;
    commands.refuse_waiting(|input| journal.state.has_seen(input)).await?;
    if journal.state.info.run.is_some() {
        return Ok(());
    }
    let requests = journal.state.queue.of(QueueKind::Request);
    let inputs: Vec<_> = requests.map(|request| request.input.clone()).collect();
    if !inputs.is_empty() {
        journal.stage(LogEntry::Withdrawn { inputs });
    }
    journal.stage(LogEntry::Owner { note: OwnerNote::Resumed });
    Ok(())
}

async fn note(session: &mut Session, note: OwnerNote) -> Result<(), MemoryError> {
    session.journal.commit(LogEntry::Owner { note }).await
}

/// Returns the number of inputs in the mailbox, without decisions of a person.
async fn unread(session: &mut Session) -> Result<u64, MemoryError> {
    let Some(memory) = session.mailbox_memory() else { return Ok(0) };
    let Some(mailbox) = memory.mailbox() else { return Ok(0) };
    let unread = without_panic(mailbox.unread()).await?;
    Ok(unread.iter().filter(|input| !is_decision(&input.event)).count() as u64)
}

/// Returns whether sub-agents work for the open batch, and none of them is the cause of the lost
/// owners. The progress of sub-agents is in their own logs.
async fn has_live_sub_agents(session: &mut Session) -> Result<bool, MemoryError> {
    let children = session.journal.state.children();
    let children: Vec<Arc<str>> = children.map(|(_, child)| child.session.clone()).collect();
    match session.tree.store.clone().filter(|_| !children.is_empty()) {
        Some(store) => Ok(!any_lost(&*store, children).await?),
        None => Ok(false),
    }
}

/// Returns whether one of these sessions of sub-agents has lost its owners without progress.
async fn any_lost(store: &dyn SessionStore, children: Vec<Arc<str>>) -> Result<bool, MemoryError> {
    for child in children {
        let log = match store.read(&child, 0).await {
            Ok(entries) => SessionLog::of(&entries),
            Err(MemoryError::NoSession(_)) => return Ok(true),
            Err(error) => return Err(error),
        };
        let below = log.children();
        if log.has_lost_owners() && (below.is_empty() || Box::pin(any_lost(store, below)).await?) {
            return Ok(true);
        }
    }
    Ok(false)
}
