//! `loopwright sessions`: the stored conversations.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use loopwright_core::event::Role;
use loopwright_core::log::{Due, SearchHit, SessionInfo, SessionLog};
use loopwright_core::message::MessageId;
use loopwright_core::{Environment, SessionStore, SystemEnvironment, excerpt};
use loopwright_memory::{import, to_jsonl, to_markdown};

use crate::args::{Format, Sessions};
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::EMPTY;
use crate::output::{self, after_write, age, write_new_file};
use crate::session::{SessionSetup, existing, name_or_random};
use crate::wording;

/// Maximum number of characters of a message in a line.
const MAX_LINE_CHARS: usize = 100;

/// Runs the subcommand, and returns the exit code.
pub(crate) async fn sessions(args: &Sessions, config: &Config) -> Result<u8, StartError> {
    // The import is read before the store is created.
    let import_text = match args {
        Sessions::Import { file, .. } => read(file)?,
        _ => String::new(),
    };
    let store = &*config.open_store(args.store())?;
    match args {
        Sessions::List { json, .. } => {
            let mut listed = Vec::new();
            for info in store.sessions().await? {
                let in_use = info.run.is_some() && store.in_use(&info.id).await? == Some(true);
                listed.push((info, in_use));
            }
            let print = |(info, in_use): &(SessionInfo, bool)| match json {
                true => output::json_line(info),
                false => print_session(info, *in_use),
            };
            after_write(listed.iter().try_for_each(print))
        }
        Sessions::Show { session, json, .. } => {
            let info = existing(store, session).await?;
            if *json {
                return after_write(output::json_line(&info));
            }
            after_write(output::text(&to_markdown(&info, &store.read(session, 0).await?)))
        }
        Sessions::Search { words, limit, json, .. } => {
            let hits = store.search(&words.join(" "), *limit).await?;
            let print = |hit: &SearchHit| match json {
                true => output::json_line(hit),
                false => print_hit(hit),
            };
            let code = after_write(hits.iter().try_for_each(print))?;
            Ok(if hits.is_empty() { EMPTY } else { code })
        }
        Sessions::Export { session, format, output: file, .. } => {
            export(store, session, *format, file.as_deref()).await
        }
        Sessions::Import { session, .. } => {
            let name = name_or_random(session.as_deref(), store).await?;
            let entries = import(store, &name, &import_text).await?;
            output::info(&format!("Imported as session {name}: {entries} log entries."));
            Ok(0)
        }
        Sessions::Delete { sessions, .. } => {
            for session in sessions {
                existing(store, session).await?.require_root()?;
                store.delete(session).await?;
                output::info(&format!("Session {session} was deleted."));
            }
            Ok(0)
        }
        Sessions::Fork { session, message, name, .. } => {
            fork(store, session, *message, name.as_deref()).await
        }
    }
}

async fn export(
    store: &dyn SessionStore,
    session: &str,
    format: Format,
    file: Option<&Path>,
) -> Result<u8, StartError> {
    let info = existing(store, session).await?;
    let entries = store.read(session, 0).await?;
    let text = match format {
        Format::Markdown => to_markdown(&info, &entries),
        Format::Jsonl => to_jsonl(session, &entries)?,
    };
    match (file, format) {
        (None, Format::Markdown) => after_write(output::text(&text)),
        (None, Format::Jsonl) => after_write(output::data(&text)),
        (Some(file), _) => write_new_file(file, &text).map(|()| 0),
    }
}

async fn fork(
    store: &dyn SessionStore,
    session: &str,
    message: Option<MessageId>,
    name: Option<&str>,
) -> Result<u8, StartError> {
    existing(store, session).await?.require_root()?;
    let name = name_or_random(name, store).await?;
    let position = match message {
        None => None,
        Some(id) => {
            let position = SessionLog::entries_up_to(&store.read(session, 0).await?, id);
            let position = position.ok_or_else(|| {
                StartError(format!(
                    "Session {session} has no message {id}; `sessions show {session}` lists its \
                     messages."
                ))
            })?;
            Some(position)
        }
    };
    let shared = store.fork(session, position, &name).await?;
    if shared == 0 {
        return Err(StartError(format!(
            "Session {session} has no complete turn up to this message, so there is no history to \
             start with."
        )));
    }
    output::info(&format!(
        "Session {name} shares {shared} log entries with {session}; `--session {name}` continues \
         it."
    ));
    Ok(0)
}

/// Prints a line about a session. If its run has no end, `in_use` is true while a process has the
/// session open.
fn print_session(info: &SessionInfo, in_use: bool) -> io::Result<()> {
    let mut notes = vec![SessionSetup::of(info).to_string()];
    notes.retain(|setup| !setup.is_empty());
    let pending = info.pending.iter().map(|pending| &*pending.action);
    notes.extend(wording::waiting(pending.clone()));
    let questions = pending.filter(|action| action.question().is_some());
    notes.extend(questions.map(|action| format!("asks: {}", output::call(action))));
    match (info.due, info.run) {
        (Some(Due::Interrupted), Some(run)) if in_use => {
            notes.push(format!("run {run} is in progress"));
        }
        (Some(Due::Interrupted), Some(run)) => notes.push(format!("run {run} was interrupted")),
        _ if info.held.is_some() => notes.extend(info.held.map(|held| held.to_string())),
        (Some(Due::Decision), _) => notes.push("a decision was not carried out yet".to_owned()),
        (Some(_), _) => notes.push("a message was not answered yet".to_owned()),
        _ => {}
    }
    notes.extend(wording::asleep_in_list(info, SystemEnvironment.now()));
    if let Some((parent, entries)) = &info.parent {
        notes.push(format!("forked from {parent} at {entries}"));
    }
    let notes = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join("; ")) };
    let age = age(info.changed);
    output::text(&format!("{}  {age}  {} entries  {}{notes}", info.id, info.entries, info.title))
}

fn print_hit(hit: &SearchHit) -> io::Result<()> {
    let role = match hit.message.role() {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::ToolResult => "tool",
        _ => "note",
    };
    let text = hit.message.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let line = excerpt::chars(&text, MAX_LINE_CHARS);
    output::text(&format!("{}  {} {role}: {line}", hit.session, hit.message.id))
}

/// Reads a file, or standard input if its name is `-`.
fn read(file: &Path) -> Result<String, StartError> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().read_to_string(&mut text),
        _ => File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|why| StartError(format!("{} cannot be read: {why}.", file.display())))?;
    Ok(text)
}
