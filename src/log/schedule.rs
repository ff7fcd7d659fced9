//! [`Schedule`]: an input that is posted at a certain time, once or repeatedly.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, SystemEnvironment};
use crate::error::InvalidSchedule;
use crate::event::input::InputEvent;
use crate::log::mailbox::PostedInput;

const MAX_ID_BYTES: usize = 200;
const MAX_CRON_BYTES: usize = 200;
const MAX_TIME_ZONE_BYTES: usize = 100;
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// An input that is posted to a session at a certain time, once or repeatedly.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Schedule {
    /// The id of the session.
    pub session: Arc<str>,
    /// The id of the schedule within the session.
    pub id: Arc<str>,
    /// The next time, in milliseconds since 1970.
    pub next: u64,
    /// The later times, as a cron expression; `None` for a single time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Arc<str>>,
    /// The time zone of the cron expression, such as `Europe/Berlin`; `None` means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Arc<str>>,
    /// The time of the next attempt, if the input of this time could not be posted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<u64>,
    /// The time of the last input that was posted, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// A random number, which tells the schedule apart from others that had its id before.
    #[serde(default)]
    pub nonce: u32,
    /// The input to post. [`input`](Schedule::input) replaces its id.
    #[schemars(with = "serde_json::Value")]
    pub event: InputEvent,
}

impl Schedule {
    /// Builds a schedule that posts an input once, at a time in milliseconds since 1970.
    pub fn once(
        session: impl Into<Arc<str>>,
        id: impl Into<Arc<str>>,
        time: u64,
        event: InputEvent,
    ) -> Self {
        Schedule {
            session: session.into(),
            id: id.into(),
            next: time,
            cron: None,
            time_zone: None,
            again_at: None,
            last: None,
            nonce: SystemEnvironment.random() as u32,
            event,
        }
    }

    /// Builds a schedule that posts an input at the times of a [cron expression](crate::log::Cron)
    /// after `now`, in milliseconds since 1970. Without a time zone, the times are in UTC.
    ///
    /// # Errors
    ///
    /// Fails if the expression or the time zone cannot be used, or if there is no such time.
    pub fn repeat(
        session: impl Into<Arc<str>>,
        id: impl Into<Arc<str>>,
        cron: &str,
        time_zone: Option<&str>,
        now: u64,
        event: InputEvent,
    ) -> Result<Self, InvalidSchedule> {
        let mut schedule = Schedule::once(session, id, now, event);
        schedule.cron = Some(cron.into());
        schedule.time_zone = time_zone.map(Into::into);
        schedule.check()?; // before a long expression is parsed
        let next = schedule.next_after(now)?;
        schedule.next = next.ok_or_else(|| InvalidSchedule::NeverDue(cron.to_owned()))?;
        Ok(schedule)
    }

    /// Returns the time at which the schedule is due: the next time, or the time of the next
    /// attempt.
    pub fn due_at(&self) -> u64 {
        self.again_at.unwrap_or(self.next)
    }

    /// Checks the length of the parts, and whether the input can be posted. Call it for a schedule
    /// that was not built with [`repeat`](Schedule::repeat), before
    /// [`Schedules::put`](crate::log::Schedules::put).
    ///
    /// # Errors
    ///
    /// Fails for an empty or long id, a long cron expression, time zone or input, a time zone
    /// without a cron expression, and an input that is neither a request nor a signal.
    pub fn check(&self) -> Result<(), InvalidSchedule> {
        self.input()?;
        if !matches!(self.event, InputEvent::UserRequest(_) | InputEvent::Signal { .. }) {
            return Err(InvalidSchedule::Event);
        }
        let bytes = self.id.len();
        if !(1..=MAX_ID_BYTES).contains(&bytes) {
            return Err(InvalidSchedule::Id { bytes, max: MAX_ID_BYTES });
        }
        if self.time_zone.is_some() && self.cron.is_none() {
            return Err(InvalidSchedule::NeedsCron);
        }
        let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let input = serde_json::to_vec(&self.event).map_or(usize::MAX, |json| json.len());
        for (part, bytes, max) in [
            ("cron expression", length(&self.cron), MAX_CRON_BYTES),
            ("time zone", length(&self.time_zone), MAX_TIME_ZONE_BYTES),
            ("input", input, MAX_INPUT_BYTES),
        ] {
            if bytes > max {
                return Err(InvalidSchedule::TooLong { part, bytes, max });
            }
        }
        Ok(())
    }

    /// Returns the first time of the cron expression after this time, or `None` for a single time.
    ///
    /// # Errors
    ///
    /// Fails if the expression or the time zone cannot be used, and with
    /// [`InvalidSchedule::NoCron`] if this program was built without the feature `cron`.
    pub fn next_after(&self, time: u64) -> Result<Option<u64>, InvalidSchedule> {
        let Some(cron) = &self.cron else { return Ok(None) };
        next_time(cron, self.time_zone.as_deref(), time)
    }

    /// Returns the input of the next time. Its id consists of the schedule's id, its nonce and the
    /// time, so that several workers can post it and the session takes it once. It waits for
    /// [room](PostedInput::waits_for_room) in the session's queue.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be posted; see [`PostedInput::new`].
    pub fn input(&self) -> Result<PostedInput, InvalidSchedule> {
        self.input_at(self.next)
    }

    /// Returns the input of the last time, unless there was none.
    pub(crate) fn last_input(&self) -> Result<Option<PostedInput>, InvalidSchedule> {
        self.last.map(|last| self.input_at(last)).transpose()
    }

    fn input_at(&self, time: u64) -> Result<PostedInput, InvalidSchedule> {
        let id = format!("schedule:{}:{:x}:{time}", self.id, self.nonce);
        Ok(PostedInput::new(id, self.event.clone())?.waits_for_room())
    }

    /// Returns whether both are the same schedule, due at the same time, for stores: one that was
    /// carried out or replaced meanwhile is another.
    pub fn is_same(&self, other: &Schedule) -> bool {
        self.session == other.session
            && self.id == other.id
            && self.nonce == other.nonce
            && self.due_at() == other.due_at()
    }
}

#[cfg(feature = "cron")]
fn next_time(cron: &str, zone: Option<&str>, time: u64) -> Result<Option<u64>, InvalidSchedule> {
    Ok(crate::log::cron::Cron::new(cron, zone)?.next_after(time))
}

#[cfg(not(feature = "cron"))]
fn next_time(_cron: &str, _zone: Option<&str>, _time: u64) -> Result<Option<u64>, InvalidSchedule> {
    Err(InvalidSchedule::NoCron)
}
