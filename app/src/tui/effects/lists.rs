//! What can be chosen from, what tools there are, and the conversation as a file.

use std::path::{Path, PathBuf};

use loopwright::{Effect as ToolEffect, SessionInfo};
use loopwright_memory::to_markdown;
use loopwright_providers::Facts;
use loopwright_tools::coding_tools_with;

use super::News;
use super::files::files;
use super::open::Host;
use crate::agent::StartError;
use crate::print::age;
use crate::sessions::write_new;
use crate::telling::waiting;
use crate::tui::state::{Choice, Source, Told, Tone};
use crate::{models, store::Session};

impl Host {
    /// Lists it, beside whatever else is to be done.
    pub(super) fn list(&self, source: Source) {
        let (news, options) = (self.news(), self.options().clone());
        let tell = move |choices| {
            let _ = news.send(News::Told(Told::Listed(source, choices)));
        };
        match source {
            Source::Files => {
                let root = options.place.root_or_here();
                tokio::task::spawn_blocking(move || tell(files(&root)));
            }
            Source::Models => {
                tokio::task::spawn_blocking(move || {
                    let Ok(catalogue) = models::catalogue(options.models.as_ref()) else { return tell(Vec::new()) };
                    let mut all: Vec<Choice> =
                        catalogue.search("").map(|(id, facts)| Choice::new(id, facts_of(facts))).collect();
                    all.push(Choice::new("offline", "rules, which need no model"));
                    tell(all);
                });
            }
            Source::Sessions => {
                let Ok(store) = self.store() else { return tell(Vec::new()) };
                tokio::spawn(async move {
                    let all = store.sessions().await.unwrap_or_default();
                    tell(all.iter().map(choice).collect());
                });
            }
            Source::Messages => {}
        }
    }

    /// Tells what the agent can do.
    pub(super) fn tools(&self) {
        let place = &self.options().place;
        let told = match place.workspace() {
            Err(why) => Told::Notice(Tone::Error, StartError::from(why).0),
            Ok(workspace) => {
                let tools = coding_tools_with(workspace, place.commands());
                let line = |tool: &std::sync::Arc<dyn loopwright::Tool>| {
                    let spec = tool.spec();
                    let asks = match spec.effect {
                        ToolEffect::ReadOnly => "",
                        _ if self.allowed().has(&spec.name) => " · allowed",
                        _ => " · asks first",
                    };
                    let title = spec.title.as_deref().unwrap_or_default();
                    Choice::new(&*spec.name, format!("{title}{asks}"))
                };
                Told::Table(tools.tools().map(line).collect())
            }
        };
        self.tell(told);
    }

    /// Writes the conversation to a file that is not there yet.
    pub(super) async fn export(&self, file: Option<PathBuf>) {
        let told = match self.session() {
            None => Told::Notice(Tone::Error, "No session is open.".into()),
            Some(session) => {
                let file = file.unwrap_or_else(|| PathBuf::from(format!("loopwright-{}.md", session.name)));
                match export(session, &file).await {
                    Ok(()) => Told::Notice(Tone::Quiet, format!("The conversation is in {}.", file.display())),
                    Err(StartError(why)) => Told::Notice(Tone::Error, why),
                }
            }
        };
        self.tell(told);
    }
}

async fn export(session: &Session, file: &Path) -> Result<(), StartError> {
    let info = session.store.session(&session.name).await?;
    write_new(file, &to_markdown(&info, &session.store.read(&session.name, 0).await?))
}

fn choice(info: &SessionInfo) -> Choice {
    let waits = waiting(info.pending.len()).map(|calls| format!("{calls} · ")).unwrap_or_default();
    Choice::new(&*info.id, format!("{:>4}  {waits}{}", age(info.changed), info.title))
}

fn facts_of(facts: &Facts) -> String {
    let mut words = Vec::new();
    if let Some(window) = facts.context_window {
        words.push(format!("{}k", window / 1000));
    }
    if let Some(prices) = facts.prices {
        words.push(format!("${} / ${}", prices.input, prices.output));
    }
    words.join("  ")
}
