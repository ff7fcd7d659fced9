//! [`Stage`], a part of a pattern's work, with its branches.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::AgentEvent;

/// The key of the stages among the values of the request.
pub(crate) const STAGES_KEY: &str = "stages:";
/// The kind of their event.
pub(crate) const STAGES: &str = "stages";

/// Maximum number of stages. When another one begins, the first one that has ended is left out.
const MAX_STAGES: usize = 100;

/// A part of a pattern's work on a request of the user, such as a node of a graph.
///
/// A pattern begins stages ([`StepContext::begin_stage`](crate::StepContext::begin_stage)), and
/// front ends show where it is. The log has them. All of them, in the order in which they first
/// began, are in [`AgentState::stages`](crate::session::AgentState::stages),
/// [`SessionLog::stages`](crate::log::SessionLog::stages), and in an event of kind `stages` when
/// they change ([`Stage::all`]).
///
/// ```
/// use loopwright_core::AgentEvent;
/// use loopwright_core::log::Stage;
/// use serde_json::json;
///
/// let read = json!({ "of": 3, "done": 1, "running": 1, "waiting": 1 });
/// let data = json!([
///     { "name": "plan", "since": 1_700_000_000_000_u64, "until": 1_700_000_002_000_u64 },
///     { "name": "read", "since": 1_700_000_002_000_u64, "branches": read },
/// ]);
/// let stages = Stage::all(&AgentEvent::Custom { kind: "stages".into(), data: data.into() });
/// let stages = stages.unwrap();
/// assert!(stages[0].until.is_some() && stages[1].until.is_none());
/// assert_eq!(stages[1].branches.as_ref().unwrap().waiting, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Stage {
    /// The name, for people.
    pub name: Arc<str>,
    /// Start of the last visit, in milliseconds since 1970.
    pub since: u64,
    /// End of the last visit, in milliseconds since 1970. `None` if the pattern is at this stage,
    /// also while the session waits, and after a run that failed or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The number of the last visit, counted from one, for this request of the user.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub visits: u32,
    /// The branches of the last visit, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branches: Option<BranchCounts>,
}

/// The branches of a [`Stage`]: works under keys that begin alike, at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct BranchCounts {
    /// The start of the keys of their requests and calls.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub key: Arc<str>,
    /// The number of all branches.
    pub of: usize,
    /// Branches with a reply, or with the result of a call that succeeded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub done: usize,
    /// Calls that failed or were denied. A request that failed is not done, and may be sent again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Branches that work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub running: usize,
    /// Branches that wait for a decision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: usize,
}

impl Stage {
    /// Creates a stage with this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Stage { name: name.into(), since: 0, until: None, visits: 1, branches: None }
    }

    /// Sets the number of this visit, counted from one, for a stage that begins several times.
    pub fn visit(mut self, number: u32) -> Self {
        self.visits = number;
        self
    }

    /// Sets the number of the branches, and the start of the keys of their requests
    /// ([`Ask::key`](crate::Ask::key)) and calls ([`Call::key`](crate::session::Call::key)). The
    /// log then says how many are done, work and wait.
    pub fn branches(mut self, key: impl Into<Arc<str>>, of: usize) -> Self {
        self.branches = Some(BranchCounts { key: key.into(), of, ..BranchCounts::default() });
        self
    }

    /// Reads all stages from an event, or returns `None` if the event says something else.
    pub fn all(event: &AgentEvent) -> Option<Vec<Stage>> {
        match event {
            AgentEvent::Custom { kind, data } if **kind == *STAGES => {
                Vec::deserialize(&**data).ok()
            }
            _ => None,
        }
    }

    /// Begins a stage at this time, and ends the others. A visit that has begun before changes
    /// nothing, and `false` is returned.
    pub(crate) fn begin(self, all: &mut Vec<Stage>, now: u64) -> bool {
        let known = all.iter().position(|stage| stage.name == self.name);
        if known.is_some_and(|at| all[at].visits >= self.visits) {
            return false;
        }
        Stage::end(all, now);
        let begun = Stage { since: now, ..self };
        match known {
            Some(at) => all[at] = begun,
            None => {
                if all.len() >= MAX_STAGES {
                    all.remove(0);
                }
                all.push(begun);
            }
        }
        true
    }

    /// Ends all stages at this time.
    pub(crate) fn end(all: &mut [Stage], now: u64) {
        all.iter_mut().for_each(|stage| _ = stage.until.get_or_insert(now));
    }
}

impl From<&str> for Stage {
    fn from(name: &str) -> Self {
        Stage::new(name)
    }
}

/// Returns the values of a map whose keys begin with `key`.
pub(crate) fn under<'a, T>(
    map: &'a BTreeMap<Arc<str>, T>,
    key: &'a str,
) -> impl Iterator<Item = &'a T> {
    let range = map.range::<str, _>((Bound::Included(key), Bound::Unbounded));
    range.take_while(move |(other, _)| other.starts_with(key)).map(|(_, value)| value)
}

fn one() -> u32 {
    1
}

fn is_one(visits: &u32) -> bool {
    *visits == 1
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
