//! The command lines of `schedules` and `wake`.

use clap::{Args, Subcommand};

use super::sessions::StoreArgs;
use super::verbosity::VerbosityArgs;
use crate::options::{Flags, Options, SERVER};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, flatten_help = true)]
pub(crate) struct SchedulesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ScheduleCommand>,
    /// Print each as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Send a message at a time, or at the times of a cron expression.
    ///
    /// It is sent while `loopwright wake --watch` or `loopwright serve` runs. A time that passes
    /// meanwhile is made up for once.
    Add(Box<AddScheduleArgs>),
    /// Remove a schedule.
    Remove {
        /// The name of the session.
        session: String,
        /// The schedule, as `loopwright schedules` lists it.
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddScheduleArgs {
    /// The name of the session, and the message; with --new only the message.
    #[arg(value_name = "[SESSION] MESSAGE", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,
    /// Start a session for it, with the options of `run`.
    #[arg(long)]
    pub(crate) new: bool,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    /// The time zone of the cron expression, such as Europe/Berlin; this machine's by default.
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// The id of the schedule, which replaces the session's schedule with this id; a new one by
    /// default.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Print the schedule as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// The time of a schedule.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhenArgs {
    /// The time: a date, or a date and time such as 2026-11-24T14:05.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// The time from now, such as 2h, 90m or '1 day'.
    #[arg(long = "in", value_name = "DURATION")]
    pub(crate) after: Option<String>,
    /// The times as a cron expression: '0 9 * * MON-FRI' is nine o'clock on each working day.
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WakeArgs {
    /// Wait for the next timers and schedules, until Ctrl-C.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) defaults: Flags<SERVER>,
}
