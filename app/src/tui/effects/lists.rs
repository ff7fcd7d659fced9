//! What can be chosen from, what tools there are, and the conversation as a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::SessionInfo;
use loopwright_core::tool::Effect as ToolEffect;
use loopwright_memory::to_markdown;
use loopwright_providers::ModelFacts;
use loopwright_tools::coding_tools_with;

use super::News;
use super::files::{MOST, files};
use super::open::Host;
use crate::agent::StartError;
use crate::args::Approve;
use crate::print::age;
use crate::sessions::write_new;
use crate::telling::waiting;
use crate::tui::state::{Choice, Source, Told, Tone};
use crate::{models, store::Session};

impl Host {
    /// Lists it, beside whatever else is to be done.
    pub(super) fn list(&self, source: Source) {
        let (news, options) = (self.news(), self.options().clone());
        // What could not be looked up is no empty list: why is told.
        let tell = move |listed: Result<Vec<Choice>, StartError>| {
            let choices = listed.unwrap_or_else(|StartError(why)| {
                let _ = news.send(News::Told(Told::Notice(Tone::Error, why)));
                Vec::new()
            });
            let _ = news.send(News::Told(Told::Listed(source, choices)));
        };
        match source {
            Source::Files => {
                let (root, news) = (options.place.root_or_here(), self.news());
                tokio::task::spawn_blocking(move || {
                    let (all, more) = files(&root, MOST);
                    if more {
                        let text = format!(
                            "… more: {MOST} files are offered after @, the directory has others too."
                        );
                        let _ = news.send(News::Told(Told::Notice(Tone::Quiet, text)));
                    }
                    tell(Ok(all));
                });
            }
            Source::Models => {
                tokio::task::spawn_blocking(move || tell(known_models(options.models.as_ref())));
            }
            Source::Sessions => {
                let open = self.handle().and(self.session()).map(|session| session.name.clone());
                let store = self.store();
                tokio::spawn(async move {
                    tell(match store {
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

    /// Tells what the agent can do.
    pub(super) fn tools(&self) {
        let place = &self.options().place;
        let told = match place.workspace() {
            Err(why) => Told::Notice(Tone::Error, StartError::from(why).0),
            Ok(workspace) => {
                let tools = coding_tools_with(workspace, place.commands());
                let approved = &self.options().approve;
                let unasked = |name: &str| {
                    let given = |one: &Approve| {
                        *one == Approve::All || *one == Approve::Tool(name.to_owned())
                    };
                    self.allowed().has(name) || approved.iter().any(given)
                };
                let line = |tool: &Arc<dyn loopwright_core::Tool>| {
                    let spec = tool.spec();
                    let asks = match spec.effect {
                        ToolEffect::ReadOnly => "",
                        _ if unasked(&spec.name) => " · allowed",
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
                let file = file
                    .unwrap_or_else(|| PathBuf::from(format!("loopwright-{}.md", session.name)));
                match export(session, &file).await {
                    Ok(()) => Told::Notice(
                        Tone::Quiet,
                        format!("The conversation is in {}.", file.display()),
                    ),
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

fn known_models(list: Option<&PathBuf>) -> Result<Vec<Choice>, StartError> {
    let catalogue = models::catalogue(list)?;
    let mut all: Vec<Choice> =
        catalogue.search("").map(|(id, facts)| Choice::new(id, facts_of(facts))).collect();
    all.push(Choice::new("offline", "rules, which need no model"));
    Ok(all)
}

/// The one that is open comes last: nobody looks for it.
fn others_first(all: &[SessionInfo], open: Option<Arc<str>>) -> Vec<Choice> {
    let (open, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|info| Some(&info.id) == open.as_ref());
    others.into_iter().chain(open).map(choice).collect()
}

fn choice(info: &SessionInfo) -> Choice {
    let waits = waiting(info.pending.len()).map(|calls| format!("{calls} · ")).unwrap_or_default();
    Choice::new(&*info.id, format!("{:>4}  {waits}{}", age(info.changed), info.title))
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
