//! The log of `serve`, on standard error.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::agent::StartError;

/// The environment variable with the level.
pub(crate) const LEVEL: &str = "LOOPWRIGHT_LOG";

/// Begins the log: warnings, or what the environment says. Only of loopwright's own crates: what
/// others would log of a request is not known to be without its key.
pub(crate) fn begin() -> Result<(), StartError> {
    let level = match std::env::var_os(LEVEL).filter(|level| !level.is_empty()) {
        None => LevelFilter::WARN,
        Some(told) => match told.to_str() {
            Some("error") => LevelFilter::ERROR,
            Some("warn") => LevelFilter::WARN,
            Some("info") => LevelFilter::INFO,
            Some("debug") => LevelFilter::DEBUG,
            Some("trace") => LevelFilter::TRACE,
            _ => {
                let why = format!(
                    "{LEVEL} is {told:?}: give `error`, `warn`, `info`, `debug` or `trace`."
                );
                return Err(StartError(why));
            }
        },
    };
    // A run, a reply and a call are a line each when they have ended, with how long they took.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_span_events(FmtSpan::CLOSE)
        .log_internal_errors(false);
    let log = tracing_subscriber::registry()
        .with(lines)
        .with(Targets::new().with_target("loopwright", level));
    log.try_init().map_err(|why| StartError(format!("The log could not be begun: {why}.")))
}
