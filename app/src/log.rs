//! The log of `serve`, on standard error.

use std::io;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;
use crate::environment::Names;
use crate::error::StartError;

/// Starts the log at the level in `LOOPWRIGHT_LOG`, by default `warn`.
///
/// Only loopwright's own crates are logged: other crates could log a request with its key.
pub(crate) fn start(names: &Names, format: LogFormat) -> Result<(), StartError> {
    let variable = names.log_variable();
    let level = match std::env::var_os(&variable).filter(|level| !level.is_empty()) {
        None => LevelFilter::WARN,
        Some(level) => match level.to_str() {
            Some("error") => LevelFilter::ERROR,
            Some("warn") => LevelFilter::WARN,
            Some("info") => LevelFilter::INFO,
            Some("debug") => LevelFilter::DEBUG,
            Some("trace") => LevelFilter::TRACE,
            _ => {
                return Err(StartError(format!(
                    "{variable} is {level:?}. It must be `error`, `warn`, `info`, `debug` or \
                     `trace`."
                )));
            }
        },
    };
    // Runs, replies and calls are logged when they end, with their duration.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_span_events(FmtSpan::CLOSE)
        .log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let log = tracing_subscriber::registry()
        .with(lines)
        .with(Targets::new().with_target("loopwright", level));
    log.try_init().map_err(|why| StartError(format!("The log could not be started: {why}.")))
}
