//! Choices for completions, the list of tools, and the export of a conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::SessionInfo;
use loopwright_core::tool::{Effect as ToolEffect, ToolSpec};
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_memory::long_term::Fact;
use loopwright_memory::to_markdown;
use loopwright_providers::ModelFacts;

use super::files::{MAX_FILES, files};
use super::host::{Host, Open};
use super::msg::Msg;
use crate::environment::Names;
use crate::error::StartError;
use crate::facts::MemoryCommand;
use crate::options::root_or_here;
use crate::output::{age, write_new_file};
use crate::session::{Session, SessionSetup, catalogue};
use crate::tui::state::{Choice, Outcome, Source, Tone};
use crate::wording::{asleep_in_list, waiting};

impl Host {
    /// Lists the choices of a source in the background.
    pub(super) fn list(&self, source: Source) {
        let msgs = self.msgs.clone();
        let options = self.settings.active.clone();
        // A failure is reported; it must not look like an empty list.
        let send_list = move |listed: Result<Vec<Choice>, StartError>| {
            let choices = listed.unwrap_or_else(|StartError(why)| {
                let _ = msgs.send(Msg::Outcome(Outcome::Notice(Tone::Error, why)));
                Vec::new()
            });
            let _ = msgs.send(Msg::Outcome(Outcome::Listed(source, choices)));
        };
        match source {
            Source::Files => {
                let (root, msgs) = (root_or_here(&options), self.msgs.clone());
                tokio::task::spawn_blocking(move || {
                    let (all, more) = files(&root, MAX_FILES);
                    if more {
                        let text = format!(
                            "@ completes the first {MAX_FILES} files only; the directory has more."
                        );
                        let _ = msgs.send(Msg::Outcome(Outcome::Notice(Tone::Quiet, text)));
                    }
                    send_list(Ok(all));
                });
            }
            Source::Models => {
                let names = self.names().clone();
                tokio::task::spawn_blocking(move || {
                    send_list(known_models(options.models.as_ref(), &names))
                });
            }
            Source::Sessions => {
                let open =
                    self.handle().and(self.session.as_ref()).map(|session| session.name.clone());
                let store = self.store();
                tokio::spawn(async move {
                    send_list(match store {
                        Ok(store) => store
                            .sessions()
                            .await
                            .map_err(StartError::from)
                            .map(|all| others_first(&all, open)),
                        Err(why) => Err(why),
                    });
                });
            }
            Source::Messages => {}
        }
    }

    /// Sends the list of the agent's tools.
    pub(super) fn tools(&self) {
        let Some(Open { agent, .. }) = &self.open else {
            return self.send_closed();
        };
        let approved = self.settings.active.approve.as_deref().unwrap_or_default();
        let unasked = |name: &str| {
            self.allowed.has(name) || approved.iter().any(|one| one == "all" || one == name)
        };
        let line = |spec: &Arc<ToolSpec>| {
            let asks = match spec.effect {
                ToolEffect::ReadOnly => "",
                _ if unasked(&spec.name) => " · allowed",
                _ => " · asks first",
            };
            let title = spec.title.as_deref().unwrap_or_default();
            Choice::new(&*spec.name, format!("{title}{asks}"))
        };
        let outcome = Outcome::Table(agent.tool_specs().map(line).collect());
        self.send_outcome(outcome);
    }

    /// Lists or deletes remembered facts in the background.
    pub(super) fn memory(&self, command: MemoryCommand) {
        let (msgs, is_on) = (self.msgs.clone(), self.settings.active.memory.unwrap_or_default());
        let names = self.names().clone();
        tokio::spawn(async move {
            let send = |outcome| {
                let _ = msgs.send(Msg::Outcome(outcome));
            };
            match command.run(is_on, &names).await {
                Ok(answer) => {
                    let row = |fact: Fact| Choice::new(fact.id.to_string(), fact.text);
                    if !answer.facts.is_empty() {
                        send(Outcome::Table(answer.facts.into_iter().map(row).collect()));
                    }
                    let notices = answer.notes.into_iter();
                    notices.for_each(|note| send(Outcome::Notice(Tone::Quiet, note)));
                }
                Err(StartError(why)) => send(Outcome::Notice(Tone::Error, why)),
            }
        });
    }

    /// Writes the conversation to a file, which must not exist yet.
    pub(super) async fn export(&self, file: Option<PathBuf>) {
        let outcome = match &self.session {
            None => Outcome::Notice(Tone::Error, "No session is open.".into()),
            Some(session) => {
                let file = file.unwrap_or_else(|| {
                    PathBuf::from(format!("{}-{}.md", self.names().app(), session.name))
                });
                match export(session, &file).await {
                    Ok(()) => Outcome::Notice(
                        Tone::Quiet,
                        format!("The conversation is in {}.", file.display()),
                    ),
                    Err(StartError(why)) => Outcome::Notice(Tone::Error, why),
                }
            }
        };
        self.send_outcome(outcome);
    }
}

async fn export(session: &Session, file: &Path) -> Result<(), StartError> {
    let info = session.store.session(&session.name).await?;
    write_new_file(file, &to_markdown(&info, &session.store.read(&session.name, 0).await?))
}

fn known_models(list: Option<&PathBuf>, names: &Names) -> Result<Vec<Choice>, StartError> {
    let catalogue = catalogue(list, names)?;
    let mut all: Vec<Choice> =
        catalogue.search("").map(|(id, facts)| Choice::new(id, facts_of(facts))).collect();
    all.push(Choice::new("offline", "fixed rules instead of a model"));
    Ok(all)
}

/// Returns the sessions as choices, the open one last.
fn others_first(all: &[SessionInfo], open: Option<Arc<str>>) -> Vec<Choice> {
    let (open, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|info| Some(&info.id) == open.as_ref());
    others.into_iter().chain(open).map(choice).collect()
}

fn choice(info: &SessionInfo) -> Choice {
    let waits = waiting(info.pending.iter().map(|pending| &*pending.action));
    let waits = waits.or_else(|| asleep_in_list(info, SystemEnvironment.now()));
    let waits = waits.map(|waits| format!("{waits} · ")).unwrap_or_default();
    let setup = SessionSetup::of(info).to_string();
    let setup = if setup.is_empty() { setup } else { format!("  · {setup}") };
    Choice::new(&*info.id, format!("{:>4}  {waits}{}{setup}", age(info.changed), info.title))
}

fn facts_of(facts: &ModelFacts) -> String {
    let mut words = Vec::new();
    if let Some(window) = facts.context_window {
        words.push(format!("{}k", window / 1000));
    }
    if let Some(prices) = facts.prices {
        words.push(format!("${} / ${}", prices.input, prices.output));
    }
    words.join("  ")
}
