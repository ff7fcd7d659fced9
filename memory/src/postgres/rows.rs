//! The columns that appends write.

use std::sync::PoisonError;

use loopwright_core::log::{DecisionRecord, LogEntry, MemoryError, SessionInfo};
use loopwright_core::message::InputId;
use tokio_postgres::types::ToSql;

use super::append::Append;
use super::text::to_text;
use crate::codec;
use crate::sql::{integer, is_listed, listed_actions};

/// An append with the columns that it writes.
pub(super) struct Prepared<'a> {
    pub(super) append: &'a Append,
    before: SessionInfo,
    pub(super) after: SessionInfo,
    described: Described,
}

impl<'a> Prepared<'a> {
    /// Applies the entries to the description of the session, if it has the expected length.
    pub(super) fn of(append: &'a Append) -> Result<Self, MemoryError> {
        let before = append.info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if append.at != before.entries {
            return Err(MemoryError::Conflict { at: append.at, end: before.entries });
        }
        let mut after = before.clone();
        append.entries.iter().for_each(|entry| after.apply(entry));
        let described = Described::of(&after)?;
        Ok(Prepared { append, before, after, described })
    }
}

/// The columns of a session's row that follow from its description.
pub(super) struct Described {
    pub(super) info: String,
    pub(super) changed: i64,
    pub(super) principal: String,
    pub(super) listed: bool,
    /// The name of the root session, for a sub-agent's session.
    pub(super) root: Option<String>,
    /// The time at which the session has work, in milliseconds since 1970.
    pub(super) due: Option<i64>,
}

impl Described {
    pub(super) fn of(info: &SessionInfo) -> Result<Self, MemoryError> {
        let principal = info.owner.as_ref().map_or("", |owner| owner.as_str());
        let root = info.sub_agent_of.as_ref().and_then(|parent| parent.root.as_ref());
        Ok(Described {
            info: codec::encode(info)?,
            changed: integer(info.changed),
            principal: to_text(principal).into_owned(),
            listed: is_listed(info),
            root: root.map(|root| to_text(root).into_owned()),
            due: due(info),
        })
    }
}

/// Returns the time at which the log of a session gives it work: 0 if it has work now.
fn due(info: &SessionInfo) -> Option<i64> {
    if info.sub_agent_of.is_some() {
        return None; // its root has it
    }
    match info.due_at(0) {
        Some(_) => Some(0),
        None => info.wakes_at().map(integer),
    }
}

/// Returns the searchable text of a message.
pub(super) fn words(entry: &LogEntry) -> Option<String> {
    let message = entry.message()?;
    Some(to_text(&message.text().to_lowercase()).into_owned())
}

/// Returns the id of an input as stored.
pub(super) fn input(entry: &LogEntry) -> Option<String> {
    entry.input().map(|input: &InputId| to_text(input).into_owned())
}

/// The parameters of the statement: a list for each column.
#[derive(Default)]
pub(super) struct Rows {
    worker: i32,
    pub(super) numbers: Vec<i64>,
    pub(super) epochs: Vec<i64>,
    ats: Vec<i64>,
    counts: Vec<i64>,
    infos: Vec<String>,
    changed: Vec<i64>,
    principals: Vec<String>,
    listed: Vec<bool>,
    roots: Vec<Option<String>>,
    due: Vec<Option<i64>>,
    entry_sessions: Vec<i64>,
    entry_positions: Vec<i64>,
    entry_json: Vec<String>,
    entry_inputs: Vec<Option<String>>,
    entry_words: Vec<Option<String>>,
    resolved_sessions: Vec<i64>,
    resolved_calls: Vec<String>,
    asked_sessions: Vec<i64>,
    asked_since: Vec<i64>,
    asked_calls: Vec<String>,
    asked_tools: Vec<String>,
    asked_json: Vec<String>,
    decision_sessions: Vec<i64>,
    decision_times: Vec<i64>,
    decision_positions: Vec<i64>,
    decision_principals: Vec<String>,
    decision_json: Vec<String>,
}

impl Rows {
    /// Collects the columns of these appends.
    pub(super) fn of(worker: i32, prepared: &[Prepared<'_>]) -> Result<Self, MemoryError> {
        let mut rows = Rows { worker, ..Rows::default() };
        prepared.iter().try_for_each(|ready| rows.add(ready))?;
        Ok(rows)
    }

    fn add(&mut self, ready: &Prepared<'_>) -> Result<(), MemoryError> {
        let Prepared { append, before, after, described } = ready;
        let session = append.number;
        self.numbers.push(session);
        self.epochs.push(append.epoch);
        self.ats.push(integer(append.at));
        self.counts.push(append.entries.len() as i64);
        self.infos.push(described.info.clone());
        self.changed.push(described.changed);
        self.principals.push(described.principal.clone());
        self.listed.push(described.listed);
        self.roots.push(described.root.clone());
        self.due.push(described.due);
        for ((position, entry), json) in (append.at..).zip(&*append.entries).zip(&append.json) {
            self.entry_sessions.push(session);
            self.entry_positions.push(integer(position));
            self.entry_json.push(json.clone());
            self.entry_inputs.push(input(entry));
            self.entry_words.push(words(entry));
            let record = DecisionRecord::of(&after.id, position, entry);
            if let Some(record) = record.filter(|_| after.sub_agent_of.is_none()) {
                self.decision_sessions.push(session);
                self.decision_times.push(integer(record.time));
                self.decision_positions.push(integer(position));
                let by = record.by.as_deref().unwrap_or_default();
                self.decision_principals.push(to_text(by).into_owned());
                self.decision_json.push(codec::encode(&record)?);
            }
        }
        let (before, after) = (listed_actions(before), listed_actions(after));
        for gone in before.iter().filter(|pending| !after.contains(pending)) {
            self.resolved_sessions.push(session);
            self.resolved_calls.push(to_text(&gone.action.call).into_owned());
        }
        for new in after.iter().filter(|pending| !before.contains(pending)) {
            self.asked_sessions.push(session);
            self.asked_since.push(integer(new.since));
            self.asked_calls.push(to_text(&new.action.call).into_owned());
            self.asked_tools.push(to_text(&new.action.name).into_owned());
            self.asked_json.push(codec::encode(new)?);
        }
        Ok(())
    }

    /// Returns the parameters in the order of the statement.
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 28] {
        [
            &self.worker,
            &self.numbers,
            &self.epochs,
            &self.ats,
            &self.counts,
            &self.infos,
            &self.changed,
            &self.principals,
            &self.listed,
            &self.roots,
            &self.due,
            &self.entry_sessions,
            &self.entry_positions,
            &self.entry_json,
            &self.entry_inputs,
            &self.entry_words,
            &self.resolved_sessions,
            &self.resolved_calls,
            &self.asked_sessions,
            &self.asked_since,
            &self.asked_calls,
            &self.asked_tools,
            &self.asked_json,
            &self.decision_sessions,
            &self.decision_times,
            &self.decision_positions,
            &self.decision_principals,
            &self.decision_json,
        ]
    }
}
