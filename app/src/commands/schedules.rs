//! `loopwright schedules`: messages that are sent at certain times.

use std::io;

use jiff::tz::TimeZone;
use jiff::{Span, ZonedDateTime};
use loopwright_core::event::{InputEvent, Prompt};
use loopwright_core::log::{InvalidSchedule, MemoryError, Schedule, ScheduleQuery, Schedules};
use loopwright_core::{Environment, SessionStore, SystemEnvironment, excerpt};

use crate::args::{AddScheduleArgs, ScheduleCommand, SchedulesArgs, WhenArgs};
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::output;
use crate::session::{Session, existing, name_or_random};
use crate::terms::{at_time, date_and_time};
use crate::time::read_time;

/// Maximum number of characters of a message in a line.
const MAX_LINE_CHARS: usize = 60;

/// Lists, adds or removes schedules, and returns the exit code.
pub(crate) async fn schedules(args: &SchedulesArgs, config: &Config) -> Result<u8, StartError> {
    match &args.command {
        None => list(args, config).await,
        Some(ScheduleCommand::Add(args)) => add(args, config).await,
        Some(ScheduleCommand::Remove { session, id, store }) => {
            let store = config.open_store(store)?;
            if !schedules_of(&*store)?.remove(session, id).await? {
                let program = started_as();
                return Err(StartError(format!(
                    "Session `{session}` has no schedule `{id}`; `{program} schedules` lists them."
                )));
            }
            output::info(&format!("Schedule {id} of session {session} was removed."));
            Ok(0)
        }
    }
}

async fn list(args: &SchedulesArgs, config: &Config) -> Result<u8, StartError> {
    let store = config.open_store(&args.store)?;
    let page = schedules_of(&*store)?.page(&ScheduleQuery::new(usize::MAX)).await?;
    let print = |schedule: &Schedule| match args.json {
        true => output::json_line(schedule),
        false => print_schedule(schedule),
    };
    output::after_write(page.schedules.iter().try_for_each(print))?;
    Ok(if page.schedules.is_empty() { EMPTY } else { 0 })
}

fn print_schedule(schedule: &Schedule) -> io::Result<()> {
    let Schedule { session, id, next, cron, time_zone, .. } = schedule;
    let zone = time_zone.as_deref().unwrap_or("UTC");
    let times = cron.as_ref().map_or("once".to_owned(), |cron| format!("{cron} ({zone})"));
    let message = message(&schedule.event);
    output::text(&format!("{session}  {id}  {}  {times}  {message}", date_and_time(*next)))
}

/// Returns the input of a schedule in a line.
fn message(event: &InputEvent) -> String {
    let InputEvent::UserRequest(prompt) = event else { return "(a signal)".into() };
    let text = prompt.message.text().split_whitespace().collect::<Vec<_>>().join(" ");
    excerpt::chars(&text, MAX_LINE_CHARS).to_string()
}

async fn add(args: &AddScheduleArgs, config: &Config) -> Result<u8, StartError> {
    let (session, message) = match (&args.words[..], args.new) {
        ([message], true) => (None, message),
        ([session, message], false) => (Some(session), message),
        (_, true) => {
            let why = "With --new there is only a message, in quotes: the session is a new one.";
            return Err(StartError(why.into()));
        }
        _ => {
            let why = "Give a session and a message, in quotes, or --new and only a message.";
            return Err(StartError(why.into()));
        }
    };
    if message.trim().is_empty() {
        return Err(StartError("The message is empty: write what is to be done.".into()));
    }
    let store = config.open_store(&args.store)?;
    let schedules = schedules_of(&*store)?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => format!("t{:08x}", SystemEnvironment.random() as u32),
    };
    let event = InputEvent::UserRequest(Prompt::from(message.as_str()));
    // Before the session is created.
    let mut schedule = build(&args.when, args.time_zone.as_deref(), &id, event)?;
    schedule.session = match session {
        Some(session) => existing(&*store, session).await?.id,
        None => {
            let name = name_or_random(None, &*store).await?.into();
            let session = Session { store: store.clone(), name, info: None, is_stored: true };
            create(&session, args, config).await?;
            session.name
        }
    };
    schedules.put(&schedule).await?;
    if args.json {
        return output::after_write(output::json_line(&schedule));
    }
    let (program, session) = (started_as(), output::quoted(&schedule.session));
    let time = at_time(schedule.next, SystemEnvironment.now());
    output::info(&format!(
        "Schedule {id} sends the message to session {session} {time}, while `{program} wake \
         --watch` or `{program} serve` runs."
    ));
    Ok(0)
}

/// Returns the schedule, without its session.
fn build(
    when: &WhenArgs,
    time_zone: Option<&str>,
    id: &str,
    event: InputEvent,
) -> Result<Schedule, StartError> {
    let now = SystemEnvironment.now();
    let failed = |why: InvalidSchedule| StartError(format!("The schedule is not valid: {why}."));
    let mut schedule = match (&when.at, &when.after, &when.cron) {
        (Some(at), ..) => Schedule::once("", id, read_time("--at", at)?, event),
        (_, Some(after), _) => Schedule::once("", id, after_now(after)?, event),
        (.., cron) => {
            let here = TimeZone::system();
            let zone = time_zone.or(here.iana_name()).ok_or_else(|| {
                let why = "The name of this machine's time zone is not known: give one with \
                           --time-zone, such as Europe/Berlin or UTC.";
                StartError(why.into())
            })?;
            let zone = Some(zone);
            let cron = cron.as_deref().unwrap_or_default();
            Schedule::repeat("", id, cron, zone, now, event).map_err(failed)?
        }
    };
    if when.cron.is_none() {
        schedule.time_zone = time_zone.map(Into::into); // which is refused
    }
    schedule.check().map_err(failed)?;
    if schedule.next <= now {
        return Err(failed(InvalidSchedule::Past));
    }
    Ok(schedule)
}

/// Returns the time, in milliseconds since 1970, that is so long from now.
fn after_now(text: &str) -> Result<u64, StartError> {
    let span = text.parse::<Span>().ok();
    let time = span.and_then(|span| ZonedDateTime::now().checked_add(span).ok());
    time.and_then(|time| u64::try_from(time.timestamp().as_millisecond()).ok()).ok_or_else(|| {
        StartError("The value of --in is no duration: give one such as 2h, 90m or '1 day'.".into())
    })
}

/// Creates a session that stores its options, without sending it anything.
async fn create(
    session: &Session,
    args: &AddScheduleArgs,
    config: &Config,
) -> Result<(), StartError> {
    let built = session.build(&args.options, config, args.verbosity.verbosity()).await?;
    let in_use = || MemoryError::InUse(session.name.clone());
    let context = session.context_if_free(&built).await?.ok_or_else(in_use)?;
    let (handle, _events) = built.agent.run(context).await?;
    handle.close().await;
    Ok(())
}

fn schedules_of(store: &dyn SessionStore) -> Result<&dyn Schedules, StartError> {
    Ok(store.schedules().ok_or(MemoryError::NoSchedules)?)
}
