//! `loopwright audit`: who decided what, when, and from where.

use std::io;

use loopwright_core::log::{AuditQuery, DecisionRecord};

use crate::args::AuditArgs;
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::output;
use crate::terms::date_and_time;
use crate::time::read_time;

/// Lists decisions, the latest first, and returns the exit code.
pub(crate) async fn audit(args: &AuditArgs, config: &Config) -> Result<u8, StartError> {
    let store = config.open_store(&args.store)?;
    let mut query = AuditQuery::new(args.limit.unwrap_or(usize::MAX));
    query.session = args.session.as_deref().map(Into::into);
    query.by = args.by.as_deref().map(Into::into);
    query.since = args.since.as_deref().map(|text| read_time("--since", text)).transpose()?;
    query.until = args.until.as_deref().map(|text| read_time("--until", text)).transpose()?;
    let decisions = store.decisions(&query).await?.decisions;
    let print = |record: &DecisionRecord| match args.json {
        true => output::json_line(record),
        false => print_record(record),
    };
    output::after_write(decisions.iter().try_for_each(print))?;
    Ok(if decisions.is_empty() { EMPTY } else { 0 })
}

fn print_record(record: &DecisionRecord) -> io::Result<()> {
    let DecisionRecord { session, call, .. } = record;
    let or_dash = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or("-").to_owned();
    let (by, source, tool) = (or_dash(&record.by), or_dash(&record.source), or_dash(&record.tool));
    let digest = or_dash(&record.digest);
    let decision = match (record.resolved, &record.reason) {
        (false, _) => format!("{} (more needed)", record.decision.name()),
        (true, Some(reason)) if !reason.is_empty() => {
            format!("{}: {reason}", record.decision.name())
        }
        (true, _) => record.decision.name().to_owned(),
    };
    let time = date_and_time(record.time);
    let line = format!("{time}  {by}  {source}  {session}  {call}  {tool}  {digest}  {decision}");
    output::text(&line.split('\n').collect::<Vec<_>>().join(" "))
}
