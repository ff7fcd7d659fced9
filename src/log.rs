//! The session log, and the state derived from it.
//!
//! A session is an append-only log of [`LogEntry`] values. [`Memory`] stores one session's log, and
//! [`SessionStore`] the logs of many. [`SessionLog`] reads a log without opening the session.

pub(crate) mod audit;
pub(crate) mod calls;
pub(crate) mod check;
#[cfg(feature = "cron")]
pub(crate) mod cron;
pub(crate) mod cursor;
pub(crate) mod due;
pub(crate) mod due_schedules;
pub(crate) mod due_work;
pub(crate) mod edited;
pub(crate) mod entry;
mod entry_kinds;
pub(crate) mod follower;
pub(crate) mod in_memory_store;
pub(crate) mod mailbox;
pub(crate) mod memory;
pub(crate) mod owners;
pub(crate) mod pending;
pub(crate) mod posting;
pub(crate) mod queue;
pub(crate) mod schedule;
pub(crate) mod schedule_page;
pub(crate) mod schedules;
pub(crate) mod seen_inputs;
pub(crate) mod session_info;
pub(crate) mod session_log;
pub(crate) mod session_page;
pub(crate) mod snapshots;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod store;
pub(crate) mod turn;
pub(crate) mod waits;
pub(crate) mod workers;

pub use crate::error::{InvalidSchedule, MemoryError};
pub use audit::{AuditPage, AuditQuery, DecisionCursor, DecisionRecord};
pub use check::{check_log, replay_messages};
#[cfg(feature = "cron")]
pub use cron::Cron;
pub use cursor::InvalidCursor;
pub use due::Due;
pub use due_schedules::{CarriedOut, Interrupted, post_due_schedules};
pub use due_work::{DueSessions, keep_running_due_work, run_due_work};
pub use entry::{LogEntry, StateScope};
pub use follower::Follower;
pub use in_memory_store::InMemoryStore;
pub use mailbox::{InputReceipt, Mailbox, PostedInput};
pub use memory::{InMemory, Memory};
pub use owners::PROBATION;
pub use pending::{PendingAction, PendingCursor, PendingPage, PendingQuery};
pub use posting::post_and_wait;
pub use schedule::Schedule;
pub use schedule_page::{ScheduleCursor, SchedulePage, ScheduleQuery};
pub use schedules::{MAX_SCHEDULES, MAX_SESSION_SCHEDULES, Schedules, check_schedule_room};
pub use session_info::SessionInfo;
pub use session_log::{Branch, SessionLog};
pub use session_page::{SessionCursor, SessionPage, SessionQuery};
pub use snapshots::{Snapshot, Snapshots};
pub use stages::{BranchCounts, Stage};
pub use store::{MAX_UNREAD_INPUTS, SearchHit, SessionStore, sub_agents};
pub use turn::{Estimate, Reservation, Used};
pub use waits::{Signal, Wait};
pub use workers::{DueSession, Worker, Workers};
