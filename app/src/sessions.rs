//! `loopwright sessions`: the conversations that are kept.

use std::io::{self, Read, Write};
use std::path::Path;

use loopwright_core::event::Role;
use loopwright_core::log::{LogEntry, SearchHit, SessionInfo};
use loopwright_core::message::MessageId;
use loopwright_memory::{import, to_jsonl, to_markdown};

use crate::agent::StartError;
use crate::args::{Format, Sessions};
use crate::print::{self, age, printed};
use crate::store::{self, known, name_or_fresh};
use crate::telling;

/// Nothing was found.
const NONE: u8 = 1;
/// Characters of a message that a line shows.
const WIDTH: usize = 100;

/// Does it, and gives the exit code.
pub(crate) async fn sessions(what: &Sessions) -> Result<u8, StartError> {
    match what {
        Sessions::List { json, at } => {
            let all = store::open(at)?.sessions().await?;
            let lines = || {
                all.iter().try_for_each(
                    |info| {
                        if *json { print::json_line(info) } else { list(info) }
                    },
                )
            };
            printed(lines())
        }
        Sessions::Show { session, json, at } => {
            let store = store::open(at)?;
            let info = known(&*store, session).await?;
            if *json {
                return printed(print::json_line(&info));
            }
            printed(print::text(&to_markdown(&info, &store.read(session, 0).await?)))
        }
        Sessions::Search { words, limit, json, at } => {
            let found = store::open(at)?.search(&words.join(" "), *limit).await?;
            let lines =
                || {
                    found.iter().try_for_each(|found| {
                        if *json { print::json_line(found) } else { show(found) }
                    })
                };
            let code = printed(lines())?;
            Ok(if found.is_empty() { NONE } else { code })
        }
        Sessions::Export { session, format, output, at } => {
            let store = store::open(at)?;
            let info = known(&*store, session).await?;
            let items = store.read(session, 0).await?;
            let text = match format {
                Format::Markdown => to_markdown(&info, &items),
                Format::Jsonl => to_jsonl(session, &items)?,
            };
            match output {
                None => printed(print::text(&text)),
                Some(file) => write_new(file, &text).map(|()| 0),
            }
        }
        Sessions::Import { file, session, at } => {
            let text = read(file)?;
            let store = store::open(at)?;
            let name = name_or_fresh(session.as_deref(), &*store).await?;
            let items = import(&*store, &name, &text).await?;
            print::tell(&format!("Taken in as session {name}: {items} items."));
            Ok(0)
        }
        Sessions::Delete { sessions, at } => {
            let store = store::open(at)?;
            for session in sessions {
                known(&*store, session).await?;
                store.delete(session).await?;
                print::tell(&format!("Session {session} is removed."));
            }
            Ok(0)
        }
        Sessions::Fork { session, message, name, at } => {
            let store = store::open(at)?;
            known(&*store, session).await?;
            let name = name_or_fresh(name.as_deref(), &*store).await?;
            let at_item = match message {
                None => None,
                Some(id) => Some(place_of(*id, &store.read(session, 0).await?).ok_or_else(|| {
                    StartError(format!("Session {session} has no message {id}; `sessions show {session}` shows them."))
                })?),
            };
            let shared = store.fork(session, at_item, &name).await?;
            if shared == 0 {
                let why = format!(
                    "No turn of session {session} had ended there: there is no past to begin with."
                );
                return Err(StartError(why));
            }
            print::tell(&format!(
                "Session {name} shares {shared} items with {session}; `--session {name}` goes on with it."
            ));
            Ok(0)
        }
    }
}

/// The length of the log up to this message of the conversation.
pub(crate) fn place_of(id: MessageId, items: &[LogEntry]) -> Option<u64> {
    let brings = |item: &LogEntry| item.message().is_some_and(|message| message.id == id);
    let at = items.iter().position(brings)?;
    let said = match &items[at] {
        LogEntry::Queued { input, .. } => items.iter().position(
            |item| matches!(item, LogEntry::Delivered { input: other } if other == input),
        )?,
        _ => at,
    };
    Some(said as u64 + 1)
}

fn list(info: &SessionInfo) -> io::Result<()> {
    let mut notes = Vec::new();
    notes.extend(telling::waiting(info.pending.len()));
    if let Some(run) = info.run {
        notes.push(format!("run {run} goes on, or was interrupted"));
    }
    if let Some((parent, items)) = &info.parent {
        notes.push(format!("from {parent} at {items}"));
    }
    let notes = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join("; ")) };
    print::text(&format!(
        "{}  {}  {} items  {}{notes}",
        info.id,
        age(info.changed),
        info.items,
        info.title
    ))
}

fn show(found: &SearchHit) -> io::Result<()> {
    let who = match found.message.role() {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::ToolResult => "tool",
        Role::Custom => "note",
    };
    let text = found.message.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = text.chars().take(WIDTH).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    print::text(&format!("{}  {} {who}: {shown}{more}", found.session, found.message.id))
}

fn read(file: &Path) -> Result<String, StartError> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|why| StartError(format!("{} cannot be read: {why}.", file.display())))?;
    Ok(text)
}

/// Writes a file that nobody else may read: it holds what was said.
pub(crate) fn write_new(file: &Path, text: &str) -> Result<(), StartError> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(file);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|why| StartError(format!("{} cannot be written: {why}.", file.display())))
}
